/* A sum over all ranks, and who shares their machine. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, size, local, locals, sum;
  MPI_Comm here;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  MPI_Comm_rank(here, &local);
  MPI_Comm_size(here, &locals);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d, %d of %d here: %d\n", rank, size, local, locals, sum);
  MPI_Finalize();
  return 0;
}
