/* Loses a block in every step and says how large it has become: leak MIB_PER_STEP STEPS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE) >> 20;
}

int main(int argc, char **argv) {
    long block = atol(argv[1]) << 20;

    for (int step = 1; argc > 2 && step <= atoi(argv[2]); step++) {
        char *lost = malloc(block);

        memset(lost, step, block);
        printf("step %3d  energy %.4f  memory %ld MiB\n", step, -76.0 - 1.0 / step, resident());
        fflush(stdout);
        usleep(300000);
    }
    return 0;
}
