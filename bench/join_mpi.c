/* By whichever service the environment names, as the library of an MPI does before MPI_Init returns
   and in MPI_Finalize: OpenPMIx's client (libpmix.so.2, whose threads and sockets the rank has from then
   on), or PMI-1, spoken over PMI_PORT. By none where it names none. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "join.h"

static void Die(const char* what) {
  fprintf(stderr, "lockstep-bench-mpi-rank: %s\n", what);
  exit(5);
}

/* ---- PMIx ---- */

static int (*PmixFinalize)(const void*, size_t);

static void* Function(void* library, const char* name) {
  void* function = dlsym(library, name);
  if (function == NULL) Die(name);
  return function;
}

static void JoinPmix(void) {
  static char process[1024]; /* a pmix_proc_t, which is smaller */
  void* library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) Die(dlerror());
  int (*init)(void*, void*, size_t) = (int (*)(void*, void*, size_t))Function(library, "PMIx_Init");
  int (*fence)(const void*, size_t, const void*, size_t) =
      (int (*)(const void*, size_t, const void*, size_t))Function(library, "PMIx_Fence");
  PmixFinalize = (int (*)(const void*, size_t))Function(library, "PMIx_Finalize");
  if (init(process, NULL, 0) != 0) Die("PMIx_Init");
  if (fence(NULL, 0, NULL, 0) != 0) Die("PMIx_Fence");
}

/* ---- PMI-1 ---- */

static FILE* pmi;

/* Sends a line, if one is given, and reads one that begins with `answer`. */
static void Ask(const char* line, const char* answer) {
  char got[1024];
  if (line != NULL && (fputs(line, pmi) < 0 || fflush(pmi) != 0)) Die(line);
  if (fgets(got, sizeof got, pmi) == NULL || strncmp(got, answer, strlen(answer)) != 0) Die(answer);
}

static void JoinPmi(const char* port) {
  char host[256], hello[64];
  const char* colon = strrchr(port, ':');
  if (colon == NULL || (size_t)(colon - port) >= sizeof host) Die("PMI_PORT");
  memcpy(host, port, (size_t)(colon - port));
  host[colon - port] = 0;
  struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found;
  if (getaddrinfo(host, colon + 1, &wanted, &found) != 0) Die("PMI_PORT");
  int link = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(link, found->ai_addr, found->ai_addrlen) != 0) Die("PMI_PORT");
  freeaddrinfo(found);
  pmi = fdopen(link, "r+");
  const char* id = getenv("PMI_ID");
  snprintf(hello, sizeof hello, "cmd=initack pmiid=%s\n", id != NULL ? id : "0");
  Ask(hello, "cmd=initack");
  for (int i = 0; i < 3; ++i) Ask(NULL, "cmd=set");
  Ask("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init");
  Ask("cmd=barrier_in\n", "cmd=barrier_out");
}

void Join(void) {
  if (getenv("PMIX_NAMESPACE") != NULL) {
    JoinPmix();
  } else if (getenv("PMI_PORT") != NULL) {
    JoinPmi(getenv("PMI_PORT"));
  }
}

void Leave(void) {
  if (PmixFinalize != NULL && PmixFinalize(NULL, 0) != 0) Die("PMIx_Finalize");
  if (pmi != NULL) Ask("cmd=finalize\n", "cmd=finalize_ack");
}
