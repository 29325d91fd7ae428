/* Signs of broken hardware in the newest part of the kernel log. */
#ifndef SLURM_TRIAGE_KERNEL_SIGN_H
#define SLURM_TRIAGE_KERNEL_SIGN_H

#include <stdbool.h>

bool kernel_sign(double since);
bool kernel_sign_in(const char *log, double since);

#endif
