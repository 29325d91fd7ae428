/* Counters of the memory cgroups of a task, its step and its job, as slurmstepd sees them when the task has ended. */
#ifndef SLURM_TRIAGE_MEMCG_H
#define SLURM_TRIAGE_MEMCG_H

#include "text.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct memcg {
    int version;         /* 1 or 2; 0: not found, `why` says why */
    char job[PATH_MAX];  /* folder of the job */
    char step[PATH_MAX]; /* folder of the step */
    const char *why;
};

enum memcg_level { MEMCG_TASK, MEMCG_STEP, MEMCG_JOB };

/* `rank` is the task's rank in the step: Slurm names the folder of a task by it, not by the number on the node. */
/* Whether the job has cgroups of other steps than this one and the external one. */
bool memcg_has_other_steps(const struct memcg *memcg);
void memcg_find(struct memcg *memcg, const char *mount, uint32_t job);
uint64_t memcg_oom_events(const struct memcg *memcg, uint32_t rank);
void memcg_report(const struct memcg *memcg, enum memcg_level level, uint32_t rank, struct text *text);

#endif
