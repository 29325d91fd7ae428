#include "fake_slurm.h"

#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static gid_t groups[70000];
static char version[] = "24.11.5";

spank_err_t spank_get_item(spank_t task, spank_item_t item, ...)
{
    va_list arguments;
    spank_err_t answer = ESPANK_SUCCESS;

    if (task->silent)
        return ESPANK_ERROR;
    va_start(arguments, item);
    switch (item) {
    case S_JOB_UID: *va_arg(arguments, uid_t *) = 1001; break;
    case S_JOB_GID: *va_arg(arguments, gid_t *) = 1002; break;
    case S_JOB_ID: *va_arg(arguments, uint32_t *) = task->job; break;
    case S_JOB_STEPID: *va_arg(arguments, uint32_t *) = task->step; break;
    case S_JOB_NNODES: *va_arg(arguments, uint32_t *) = 2; break;
    case S_JOB_LOCAL_TASK_COUNT: *va_arg(arguments, uint32_t *) = task->tasks; break;
    case S_JOB_TOTAL_TASK_COUNT: *va_arg(arguments, uint32_t *) = task->of; break;
    case S_TASK_ID: *va_arg(arguments, int *) = task->local; break;
    case S_TASK_GLOBAL_ID: *va_arg(arguments, uint32_t *) = task->rank; break;
    case S_TASK_EXIT_STATUS: *va_arg(arguments, int *) = task->status; break;
    case S_TASK_PID: *va_arg(arguments, pid_t *) = task->pid; break;
    case S_JOB_SUPPLEMENTARY_GIDS:
        for (int i = 0; i < task->groups; i++)
            groups[i] = 4000000000u + (gid_t)i;
        *va_arg(arguments, gid_t **) = groups;
        *va_arg(arguments, int *) = task->groups;
        break;
    case S_SLURM_VERSION: *va_arg(arguments, char **) = version; break;
    case S_SLURM_RESTART_COUNT: *va_arg(arguments, uint32_t *) = 0; break;
    case S_JOB_ARRAY_ID: *va_arg(arguments, uint32_t *) = task->array; break;
    case S_JOB_ARRAY_TASK_ID: *va_arg(arguments, uint32_t *) = task->array_task; break;
    default: answer = ESPANK_ERROR;
    }
    va_end(arguments);
    return answer;
}

spank_err_t spank_getenv(spank_t task, const char *name, char *value, int size)
{
    if (task->silent || !task->name || strcmp(name, "SLURM_JOB_NAME") != 0)
        return ESPANK_ERROR;
    return snprintf(value, (size_t)size, "%s", task->name) < size ? ESPANK_SUCCESS : ESPANK_NOSPACE;
}
