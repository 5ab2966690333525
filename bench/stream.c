// STREAM's four kernels as they are published (J. McCalpin; stream.c's run rules): the same loops
// on doubles, scalar 3, arrays from 1, 2 and 0, ten passes of which the first is not counted, the
// best of the rest, results checked. Its threads are POSIX threads, one pinned to each CPU named,
// in place of OpenMP's.
//
//   stream BYTES CPU...      one array's bytes; prints "copy scale add triad" in bytes a second
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { kPasses = 10, kKernels = 4, kMaxThreads = 1024 };

static double* restrict a, * restrict b, * restrict c;
static size_t n;
static int threads, cpus[kMaxThreads];
static pthread_barrier_t barrier;
static double times[kKernels][kPasses];

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void Kernel(int kernel, size_t from, size_t to) {
  const double scalar = 3.0;
  switch (kernel) {
    case 0:
      for (size_t j = from; j < to; j++) c[j] = a[j];
      break;
    case 1:
      for (size_t j = from; j < to; j++) b[j] = scalar * c[j];
      break;
    case 2:
      for (size_t j = from; j < to; j++) c[j] = a[j] + b[j];
      break;
    default:
      for (size_t j = from; j < to; j++) a[j] = b[j] + scalar * c[j];
  }
}

static void* Run(void* argument) {
  const size_t me = (size_t)argument;
  const size_t from = n * me / (size_t)threads, to = n * (me + 1) / (size_t)threads;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[me], &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) exit(2);
  for (size_t j = from; j < to; j++) {
    a[j] = 1.0;
    b[j] = 2.0;
    c[j] = 0.0;
  }
  for (int pass = 0; pass < kPasses; pass++) {
    for (int kernel = 0; kernel < kKernels; kernel++) {
      pthread_barrier_wait(&barrier);
      const double start = Now();
      Kernel(kernel, from, to);
      pthread_barrier_wait(&barrier);
      if (me == 0) times[kernel][pass] = Now() - start;
    }
  }
  return NULL;
}

static double* Array(void) {
  void* memory =
      mmap(NULL, n * sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) exit(2);
  madvise(memory, n * sizeof(double), MADV_HUGEPAGE);
  return memory;
}

int main(int argc, char** argv) {
  static const double counted[kKernels] = {16, 16, 24, 24};
  pthread_t ids[kMaxThreads];
  threads = argc - 2;
  if (threads < 1 || threads > kMaxThreads) return 2;
  for (int i = 0; i < threads; i++) cpus[i] = atoi(argv[i + 2]);
  n = strtoull(argv[1], NULL, 10) / sizeof(double);
  a = Array();
  b = Array();
  c = Array();
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, Run, (void*)(size_t)i);
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  double x = 1.0, y = 2.0, z = 0.0;
  for (int pass = 0; pass < kPasses; pass++) {
    z = x;
    y = 3.0 * z;
    z = x + y;
    x = y + 3.0 * z;
  }
  for (size_t j = 0; j < n; j += 997) {
    if (fabs(a[j] / x - 1) + fabs(b[j] / y - 1) + fabs(c[j] / z - 1) > 1e-13) return 3;
  }
  for (int kernel = 0; kernel < kKernels; kernel++) {
    double best = times[kernel][1];
    for (int pass = 2; pass < kPasses; pass++) {
      if (times[kernel][pass] < best) best = times[kernel][pass];
    }
    printf("%.0f%c", counted[kernel] * (double)n / best, kernel + 1 < kKernels ? ' ' : '\n');
  }
  return 0;
}
