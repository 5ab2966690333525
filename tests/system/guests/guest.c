/* lockstep-guest rank MIB: a rank that touches MIB MiB and says, as one line of JSON, where it runs,
   under which memory policy, and on which nodes the kernel put those pages; from node MEMORY_NODE of
   its environment, if it has that. Then it reports its first step to the agent, and runs the
   command THEN of its environment.

   lockstep-guest confined PROGRAM ARGUMENT...: executes PROGRAM under a seccomp filter that refuses
   what containerd's RuntimeDefault refuses of NUMA to a container without CAP_SYS_NICE. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static void Die(const char* what) {
  perror(what);
  exit(1);
}

static const char* EnvOr(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != NULL ? value : otherwise;
}

/* ---- confined ---- */

#define REFUSE(call)                                                 \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1),                 \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA))

static int Confined(char** command) {
  struct sock_filter instructions[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      REFUSE(SYS_set_mempolicy),
      REFUSE(SYS_get_mempolicy),
      REFUSE(SYS_mbind),
      REFUSE(SYS_move_pages),
      REFUSE(SYS_migrate_pages),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof instructions / sizeof *instructions, instructions};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Die("no_new_privs");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) Die("seccomp");
  execvp(command[0], command);
  Die(command[0]);
  return 1;
}

/* ---- rank ---- */

static void ReportStep(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, EnvOr("LOCKSTEP_SOCKET", ""), sizeof address.sun_path - 1);
  int agent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(agent, (struct sockaddr*)&address, sizeof address) != 0) Die("LOCKSTEP_SOCKET");
  char line[64];
  int size = snprintf(line, sizeof line, "{\"rank\": %s, \"step\": 1}\n", EnvOr("RANK", "0"));
  if (write(agent, line, (size_t)size) != size) Die("LOCKSTEP_SOCKET");
}

/* The value of a line of /proc/self/status. */
static void PrintStatus(const char* key, const char* name) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[4096];
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    size_t size = strlen(name);
    if (strncmp(line, name, size) != 0 || line[size] != ':') continue;
    line[strcspn(line, "\n")] = 0;
    printf("\"%s\": \"%s\", ", key, line + size + 2);
  }
  if (file != NULL) fclose(file);
}

static void PrintVariable(const char* name) {
  if (getenv(name) != NULL) printf("\"%s\": \"%s\", ", name, getenv(name));
}

/* "start policy file=... anon=4 N0=3 N1=1 ...", of the mapping that holds `address`. */
static void PrintMapping(unsigned long address) {
  FILE* file = fopen("/proc/self/numa_maps", "r");
  char line[4096], found[4096] = "";
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strtoul(line, NULL, 16) > address) break;
    strcpy(found, line);
  }
  if (file != NULL) fclose(file);
  char* policy = strchr(found, ' ');
  if (policy == NULL) return;
  ++policy;
  size_t many = strncmp(policy, "prefer (many)", 13) == 0 ? 13 : 0;
  size_t size = many + strcspn(policy + many, " \n");
  printf("\"policy\": \"%.*s\", \"pages\": {", (int)size, policy);
  const char* comma = "";
  for (char* word = strtok(policy + size, " \n"); word != NULL; word = strtok(NULL, " \n")) {
    int node, count;
    if (sscanf(word, "N%d=%d", &node, &count) != 2) continue;
    printf("%s\"%d\": %d", comma, node, count);
    comma = ", ";
  }
  printf("}, ");
}

static int Rank(size_t size) {
  char* memory =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) Die("mmap");
  if (getenv("MEMORY_NODE") != NULL) {
    unsigned long nodes = 1UL << atoi(getenv("MEMORY_NODE"));
    if (syscall(SYS_mbind, memory, size, MPOL_BIND, &nodes, 64UL, 0UL) != 0) Die("mbind");
  }
  memset(memory, 1, size);
  printf("{");
  PrintStatus("cpus", "Cpus_allowed_list");
  PrintStatus("mems", "Mems_allowed_list");
  PrintMapping((unsigned long)memory);
  PrintVariable("OMP_NUM_THREADS");
  PrintVariable("CUDA_VISIBLE_DEVICES");
  PrintVariable("LOCAL_RANK");
  printf("\"rank\": %s}\n", EnvOr("RANK", EnvOr("NODE_RANK", "0")));
  fflush(stdout);
  ReportStep();
  return getenv("THEN") != NULL ? system(getenv("THEN")) : 0;
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "rank") == 0) return Rank((size_t)atol(argv[2]) << 20);
  if (argc >= 3 && strcmp(argv[1], "confined") == 0) return Confined(argv + 2);
  fprintf(stderr, "lockstep-guest rank MIB | confined PROGRAM ARGUMENT...\n");
  return 2;
}
