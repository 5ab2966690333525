/* lockstep-bench-rank DEATH VICTIM AFTER_MS LINGER_MS

   A rank that says when it lives and when it dies. It appends "start RANK RESTARTS NS" to the file
   that BENCH_TIMES names, as its first act; NS is CLOCK_BOOTTIME. Before the first restart,
   rank VICTIM waits AFTER_MS, appends "death RANK RESTARTS NS" as its last act and dies: by exit
   code 3 (DEATH exit) or SIGKILL (DEATH kill), while all others wait to be killed. After a restart,
   or with DEATH none, it exits 0 after LINGER_MS. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char* EnvOr(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != NULL ? value : otherwise;
}

static void Stamp(int file, const char* event) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  char line[128];
  int size = snprintf(line, sizeof line, "%s %s %s %lld\n", event, EnvOr("RANK", "0"),
                      EnvOr("TORCHELASTIC_RESTART_COUNT", "0"),
                      (long long)now.tv_sec * 1000000000 + now.tv_nsec);
  if (write(file, line, (size_t)size) != size) _exit(4);
}

static void Wait(const char* ms_text) {
  long ms = atol(ms_text);
  struct timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) {
  }
}

int main(int argc, char** argv) {
  int file = open(EnvOr("BENCH_TIMES", "/dev/null"), O_WRONLY | O_APPEND | O_CREAT, 0600);
  if (file < 0) return 4;
  Stamp(file, "start");
  if (argc != 5) {
    fprintf(stderr, "lockstep-bench-rank DEATH VICTIM AFTER_MS LINGER_MS\n");
    return 2;
  }
  int restarted = strcmp(EnvOr("TORCHELASTIC_RESTART_COUNT", "0"), "0") != 0;
  if (restarted || strcmp(argv[1], "none") == 0) {
    Wait(argv[4]);
    return 0;
  }
  if (strcmp(EnvOr("RANK", "0"), argv[2]) != 0) {
    for (;;) pause();
  }
  Wait(argv[3]);
  Stamp(file, "death");
  if (strcmp(argv[1], "kill") == 0) kill(getpid(), SIGKILL);
  return 3;
}
