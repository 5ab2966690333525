/* What the rank of a benchmark does between its first act and its wait: nothing, or meet the others
   as MPI's library does. */
#ifndef LOCKSTEP_TESTS_BENCH_JOIN_H_
#define LOCKSTEP_TESTS_BENCH_JOIN_H_

void Join(void);  /* returns once all ranks have joined */
void Leave(void); /* before the rank ends with 0 */

#endif
