/* Solves a small grid; the way it ends badly is chosen by its first argument, as a wrong input would. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void smooth_cells(double *cells, int count);

static long descend(long depth) {
    volatile char frame[4096];

    frame[depth % 4096] = 1;
    return depth < 0 ? 0 : frame[0] + descend(depth + 1);
}

static void *worker(void *argument) {
    char *name = argument;

    sleep(1);
    name[0] = 'x';
    return NULL;
}

static int mapped(const char *name) {
    struct stat about;
    int file = open(name, O_RDONLY);

    if (file < 0 || fstat(file, &about) != 0) {
        perror(name);
        return 2;
    }
    volatile char *cells = mmap(NULL, about.st_size, PROT_READ, MAP_SHARED, file, 0);
    long sum = 0;

    for (int pass = 0; pass < 20; pass++) {
        for (off_t at = 0; at < about.st_size; at += 4096)
            sum += cells[at];
        printf("pass %d sum %ld\n", pass, sum);
        sleep(1);
    }
    return 0;
}

static int write_mapped(const char *name, long size) {
    int file = open(name, O_RDWR | O_CREAT, 0600);

    if (file < 0 || ftruncate(file, size) != 0) {
        perror(name);
        return 2;
    }
    char *cells = mmap(NULL, size, PROT_WRITE, MAP_SHARED, file, 0);

    printf("mapped %ld MiB of %s\n", size >> 20, name);
    for (long at = 0; at < size; at += 4096)
        cells[at] = 1;
    puts("written");
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    pthread_t thread;

    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("relax: reading input\n");
    sleep(1);
    if (!strcmp(what, "deep"))
        return (int)descend(1);
    if (!strcmp(what, "library")) {
        smooth_cells(NULL, 100);
        return 0;
    }
    if (!strcmp(what, "libc"))
        return (int)strlen((const char *)(long)argc - 2);
    if (!strcmp(what, "thread"))
        return pthread_create(&thread, NULL, worker, "name") || pthread_join(thread, NULL);
    if (!strcmp(what, "wild")) /* not canonical on x86-64: general protection instead of a page fault */
        return *(volatile int *)0x5a5a5a5a5a5a5a5aUL;
    if (!strcmp(what, "twice")) {
        char *cells = malloc(100);

        free(cells);
        free(cells);
        return 0;
    }
    if (!strcmp(what, "heap")) {
        char *cells = malloc(40), *next = malloc(5000);

        memset(cells, 0x41, 80);
        free(next);
        free(malloc(6000));
        free(cells);
        return 0;
    }
    if (!strcmp(what, "smash")) {
        char name[16];

        memset(name, 'x', (size_t)argc * 40);
        return name[3] == 'y';
    }
    if (!strcmp(what, "trap")) {
        __asm__ volatile("int3");
        return 0;
    }
    if (!strcmp(what, "old-cpu")) { /* v4fmaddps (AVX512_4FMAPS), which only Xeon Phi 72x5 has */
        __asm__ volatile(".byte 0x62, 0xf2, 0x5f, 0x48, 0x9a, 0x00");
        return 0;
    }
    if (!strcmp(what, "map"))
        return mapped(argv[2]);
    if (!strcmp(what, "write-map"))
        return write_mapped(argv[2], atol(argv[3]) << 20);
    if (!strcmp(what, "grid")) {
        long size = atol(argv[2]) << 20;
        char *grid = malloc(size);

        if (grid == NULL) {
            perror("relax: grid");
            return 1;
        }
        memset(grid, 1, size);
    }
    for (int step = 1; step <= 3; step++) {
        printf("step %d residual %g\n", step, 1.0 / (step * step));
        sleep(1);
    }
    puts("converged");
    return 0;
}
