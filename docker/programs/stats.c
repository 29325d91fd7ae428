/* Divides by zero. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    (void)argv;
    volatile int count = argc - argc;
    sleep(1);
    printf("mean %d\n", 10 / count);
    return 0;
}
