/* lockstep-bench-rank DEATH VICTIM AFTER_MS LINGER_MS

   A rank that says when it lives and when it dies. As its first act it takes the time and appends
   "start RANK RESTARTED NS" to the file that BENCH_TIMES names; NS is CLOCK_BOOTTIME, RESTARTED 1
   when somebody has died before. Until then, rank VICTIM waits AFTER_MS, appends
   "death RANK 0 NS" as its last act and dies: by exit code 3 (DEATH exit) or SIGKILL (DEATH kill),
   while all others wait to be killed. After that, or with DEATH none, it exits 0 after LINGER_MS.
   lockstep-bench-mpi-rank is the same, and after its first act meets the others as MPI's library does.

   Launchers number restarts in different ways; that somebody died stands in the file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "join.h"

static const char* EnvOr(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != NULL ? value : otherwise;
}

static long long Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void Stamp(int file, const char* event, int restarted, long long ns) {
  char line[128];
  int size =
      snprintf(line, sizeof line, "%s %s %d %lld\n", event, EnvOr("RANK", "0"), restarted, ns);
  if (write(file, line, (size_t)size) != size) _exit(4);
}

static int SomebodyDied(int file) {
  static char said[1 << 17];
  ssize_t size = pread(file, said, sizeof said - 1, 0);
  if (size < 0) _exit(4);
  return strstr(said, "death ") != NULL;
}

static void Wait(const char* ms_text) {
  long ms = atol(ms_text);
  struct timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) {
  }
}

int main(int argc, char** argv) {
  long long born = Now();
  int file = open(EnvOr("BENCH_TIMES", "/dev/null"), O_RDWR | O_APPEND | O_CREAT, 0600);
  if (file < 0) return 4;
  int restarted = SomebodyDied(file);
  Stamp(file, "start", restarted, born);
  if (argc != 5) {
    fprintf(stderr, "lockstep-bench-rank DEATH VICTIM AFTER_MS LINGER_MS\n");
    return 2;
  }
  Join();
  if (restarted || strcmp(argv[1], "none") == 0) {
    Wait(argv[4]);
    Leave();
    return 0;
  }
  if (strcmp(EnvOr("RANK", "0"), argv[2]) != 0) {
    alarm(600); /* whoever should end it may be gone */
    for (;;) pause();
  }
  Wait(argv[3]);
  Stamp(file, "death", 0, Now());
  if (strcmp(argv[1], "kill") == 0) kill(getpid(), SIGKILL);
  return 3;
}
