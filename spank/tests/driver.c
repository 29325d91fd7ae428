/* Calls the plugin as slurmstepd and slurmd would, one call an argument:
 *
 *     driver [spool=DIR] [cgroup=DIR] [task:rank=1,status=9,...] [many:1000,status=9] [ends:100] [pause:MS] [epilog:job=7] [exit:step=0] [sign:SINCE,FILE]
 *
 * Keys of a task, of the epilog and of the exit: job step rank local status pid tasks of groups array array_task silent; the
 * job's name is the variable JOB_NAME. `many:N` ends N tasks one after the other, `ends:N` ends N jobs, and both print how
 * many microseconds each took (median and 99th percentile). Exit status 0 unless a callback returned anything but 0, or
 * changed errno.
 */
#define _GNU_SOURCE
#include "fake_slurm.h"
#include "kernel_sign.h"

#include <errno.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int bad;

static void set(struct spank_handle *task, char *pairs)
{
    char *save = NULL;

    for (char *pair = strtok_r(pairs, ",", &save); pair; pair = strtok_r(NULL, ",", &save)) {
        char *value = strchr(pair, '=');
        if (!value)
            continue;
        *value++ = '\0';
        uint32_t number = (uint32_t)strtoll(value, NULL, 0);
        if (strcmp(pair, "job") == 0)
            task->job = number;
        else if (strcmp(pair, "step") == 0)
            task->step = number;
        else if (strcmp(pair, "rank") == 0)
            task->rank = number;
        else if (strcmp(pair, "local") == 0)
            task->local = (int)number;
        else if (strcmp(pair, "status") == 0)
            task->status = (int)number;
        else if (strcmp(pair, "pid") == 0)
            task->pid = (pid_t)number;
        else if (strcmp(pair, "tasks") == 0)
            task->tasks = number;
        else if (strcmp(pair, "of") == 0)
            task->of = number;
        else if (strcmp(pair, "groups") == 0)
            task->groups = (int)number;
        else if (strcmp(pair, "array") == 0)
            task->array = number;
        else if (strcmp(pair, "array_task") == 0)
            task->array_task = number;
        else if (strcmp(pair, "silent") == 0)
            task->silent = (int)number;
    }
}

static void call(spank_f *callback, struct spank_handle *task, int count, char **options)
{
    errno = EXDEV;
    if (callback(task, count, options) != 0 || errno != EXDEV)
        bad = 1;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void many(spank_f *callback, struct spank_handle *task, unsigned count, int options, char **list)
{
    double *took = calloc(count, sizeof *took);

    if (!took || !count)
        exit(2);
    for (unsigned i = 0; i < count; i++) {
        struct timespec before, after;
        task->rank = i;
        task->local = (int)i;
        clock_gettime(CLOCK_MONOTONIC, &before);
        call(callback, task, options, list);
        clock_gettime(CLOCK_MONOTONIC, &after);
        took[i] = (double)(after.tv_sec - before.tv_sec) * 1e6 + (double)(after.tv_nsec - before.tv_nsec) / 1e3;
    }
    qsort(took, count, sizeof *took, by_size);
    printf("%.1f %.1f\n", took[count / 2], took[count * 99 / 100]);
    free(took);
}

static int sign(char *arguments)
{
    char log[65536];
    char *name = NULL;
    double since = strtod(arguments, &name);
    FILE *file = fopen(name + 1, "r");

    if (!file)
        exit(2);
    log[fread(log, 1, sizeof log - 1, file)] = '\0';
    fclose(file);
    return puts(kernel_sign_in(log, since) ? "sign" : "none");
}

int main(int count, char **arguments)
{
    struct spank_handle task = {.job = 7, .tasks = 1, .of = 1, .pid = 4711, .array_task = 0xfffffffe};
    char *options[8];
    int n = 0;

    task.name = getenv("JOB_NAME");
    for (int i = 1; i < count; i++) {
        char *argument = arguments[i];
        char *rest = strchr(argument, ':');
        if (strncmp(argument, "task:", 5) == 0) {
            set(&task, rest + 1);
            call(slurm_spank_task_exit, &task, n, options);
        } else if (strncmp(argument, "many:", 5) == 0) {
            unsigned tasks = (unsigned)strtoul(rest + 1, &rest, 10);
            set(&task, rest);
            many(slurm_spank_task_exit, &task, tasks, n, options);
        } else if (strncmp(argument, "ends:", 5) == 0) {
            many(slurm_spank_job_epilog, &task, (unsigned)strtoul(rest + 1, &rest, 10), n, options);
        } else if (strncmp(argument, "epilog:", 7) == 0) {
            set(&task, rest + 1);
            call(slurm_spank_job_epilog, &task, n, options);
        } else if (strncmp(argument, "exit:", 5) == 0) {
            set(&task, rest + 1);
            call(slurm_spank_exit, &task, n, options);
        } else if (strncmp(argument, "pause:", 6) == 0) {
            usleep((useconds_t)strtoul(rest + 1, NULL, 10) * 1000);
        } else if (strncmp(argument, "sign:", 5) == 0) {
            sign(rest + 1);
        } else if (n < 8) {
            options[n++] = argument;
        }
    }
    return bad;
}
