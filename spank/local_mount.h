/* Whether a path lies on a local file system, found out without touching the path itself. */
#ifndef SLURM_TRIAGE_LOCAL_MOUNT_H
#define SLURM_TRIAGE_LOCAL_MOUNT_H

#include <stdbool.h>

bool local_mount(const char *path);

#endif
