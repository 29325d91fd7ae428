/* Truncates a file that it has mapped, then reads it: SIGBUS. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
    char name[] = "/tmp/meshXXXXXX";
    int file = mkstemp(name);

    if (file < 0 || ftruncate(file, 8192) != 0)
        return 2;
    unlink(name);
    volatile char *cells = mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0);
    if (cells == MAP_FAILED || ftruncate(file, 0) != 0)
        return 2;
    sleep(1);
    return cells[4096];
}
