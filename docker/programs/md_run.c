/* Executes an instruction that no CPU has. */
#include <unistd.h>

int main(void) {
    sleep(1);
    __builtin_trap();
}
