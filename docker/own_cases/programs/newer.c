/* Asks glibc for what 2.42 has and older ones do not. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

int main(void) {
    printf("thread %d\n", (int)pthread_gettid_np(pthread_self()));
    return 0;
}
