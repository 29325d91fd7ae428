/* MPI ranks that add up; one of them ends as the first argument says: ring abort|segv|exit|truncate|hang|quiet RANK */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, sum = 0, bad = argc > 2 ? atoi(argv[2]) : -1;
    int numbers[64] = {0};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d started\n", rank, size);
    fflush(stdout);
    sleep(2);
    if (rank == bad && !strcmp(argv[1], "abort")) {
        fprintf(stderr, "rank %d: negative density in cell 4411, giving up\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 7);
    }
    if (rank == bad && !strcmp(argv[1], "segv"))
        return *(volatile int *)NULL;
    if (rank == bad && !strcmp(argv[1], "exit")) {
        fprintf(stderr, "rank %d: cannot read restart.0042.h5\n", rank);
        exit(3);
    }
    if (rank == bad && !strcmp(argv[1], "grow"))
        for (int step = 0; step < 200; step++) {
            memset(malloc(10 << 20), 1, 10 << 20);
            usleep(20000);
        }
    if (!strcmp(argv[1], "truncate") && size > 1) {
        if (rank == 0)
            MPI_Send(numbers, 64, MPI_INT, 1, 9, MPI_COMM_WORLD);
        if (rank == 1)
            MPI_Recv(numbers, 8, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (!strcmp(argv[1], "badrank"))
        MPI_Send(numbers, 1, MPI_INT, size + 2, 9, MPI_COMM_WORLD);
    if (!strcmp(argv[1], "hang")) /* everybody receives, nobody sends */
        MPI_Recv(numbers, 8, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sum of ranks %d\n", sum);
    MPI_Finalize();
    return 0;
}
