/* Plays the part of slurmstepd: what spank_get_item() answers about the task that has just ended. */
#ifndef FAKE_SLURM_H
#define FAKE_SLURM_H

#include <stdint.h>
#include <sys/types.h>

struct spank_handle {
    uint32_t job, step, rank, tasks, of, array, array_task;
    int local, status, groups;
    pid_t pid;
    int silent;       /* answers nothing */
    const char *name; /* SLURM_JOB_NAME of the job's environment, NULL: not set */
};

#endif
