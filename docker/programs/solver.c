/* Dereferences NULL in the rank that is given as the argument; the other ranks work on for a while. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const char *rank = getenv("SLURM_PROCID");
    int *cell = NULL;

    if (argc > 1 && atoi(argv[1]) == (rank ? atoi(rank) : 0)) {
        sleep(1);
        return *cell;
    }
    for (int step = 0; step < 6; step++) {
        printf("rank %s step %d\n", rank ? rank : "0", step);
        fflush(stdout);
        sleep(1);
    }
    return 0;
}
