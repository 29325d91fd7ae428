/* Fails an assertion. */
#include <assert.h>
#include <unistd.h>

int main(int argc, char **argv) {
    (void)argv;
    sleep(1);
    assert(argc == 0);
    return 0;
}
