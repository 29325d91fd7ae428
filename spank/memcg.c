#define _GNU_SOURCE
#include "memcg.h"

#include "folder.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SELF_CGROUP
#define SELF_CGROUP "/proc/self/cgroup"
#endif

enum { CONTENT = 512 };

struct counter {
    const char *key;
    const char *file;
};

/* Kernel documentation, cgroup-v2 and cgroup-v1/memory. memory.peak is there from 5.19 on, memory.swap.peak from 6.5. */
static const struct counter V2[] = {
    {"events", "memory.events"},        {"local", "memory.events.local"}, {"peak", "memory.peak"},
    {"max", "memory.max"},              {"swap_peak", "memory.swap.peak"}, {"swap_max", "memory.swap.max"},
    {"swap_events", "memory.swap.events"}, {NULL, NULL},
};
static const struct counter V1[] = {
    {"failcnt", "memory.failcnt"},
    {"max_usage", "memory.max_usage_in_bytes"},
    {"limit", "memory.limit_in_bytes"},
    {"oom_control", "memory.oom_control"},
    {"memsw_max_usage", "memory.memsw.max_usage_in_bytes"},
    {"memsw_limit", "memory.memsw.limit_in_bytes"},
    {NULL, NULL},
};

/* Reads a small file; false if it cannot be read or is empty. */
static bool read_small(int folder, const char *name, char content[CONTENT])
{
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return false;
    ssize_t got = read(file, content, CONTENT - 1);
    close(file);
    while (got > 0 && content[got - 1] == '\n')
        got--;
    if (got <= 0)
        return false;
    content[got] = '\0';
    return true;
}

/* Whether "cpu,memory" names the memory controller. */
static bool has_memory(const char *controllers, size_t length)
{
    const char *end = controllers + length;

    for (const char *at = controllers; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t word = (size_t)((comma ? comma : end) - at);
        if (word == 6 && strncmp(at, "memory", 6) == 0)
            return true;
        at += word + 1;
    }
    return false;
}

/* Whether a folder's name is that of a job: job_<id>, or from 26.05 on cgroup v2 the SLUID, 14 letters and digits that
 * begin with s (CgroupJobIdPaths of cgroup.conf). */
static bool is_job(const char *name, size_t length, uint32_t job)
{
    char by_id[32];
    int id_length = snprintf(by_id, sizeof by_id, "job_%" PRIu32, job);

    if (length == (size_t)id_length && strncmp(name, by_id, length) == 0)
        return true;
    if (length != 14 || name[0] != 's')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]))
            return false;
    return true;
}

/* From "/slurm/uid_7/job_3/step_0" or "/system.slice/slurmstepd.scope/job_3/step_0/slurm" to the two folders. */
static bool split(struct memcg *memcg, const char *mount, const char *below, const char *path, uint32_t job)
{
    const char *step = strstr(path, "/step_");
    const char *name = step;

    if (!step || strstr(path, "/../"))
        return false;
    while (name > path && name[-1] != '/')
        name--;
    if (name == path || !is_job(name, (size_t)(step - name), job))
        return false;
    size_t to_job = (size_t)(step - path);
    size_t to_step = to_job + 1 + strcspn(step + 1, "/");
    int a = snprintf(memcg->job, sizeof memcg->job, "%s%s%.*s", mount, below, (int)to_job, path);
    int b = snprintf(memcg->step, sizeof memcg->step, "%s%s%.*s", mount, below, (int)to_step, path);
    return a > 0 && b > 0 && (size_t)a < sizeof memcg->job && (size_t)b < sizeof memcg->step;
}

/* slurmstepd lives in the step's own cgroup (v1) or in a child of it (v2): /proc/self/cgroup tells where. */
void memcg_find(struct memcg *memcg, const char *mount, uint32_t job)
{
    char content[8192];
    char *save = NULL;
    int file = open(SELF_CGROUP, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, content, sizeof content - 1);

    memcg->version = 0;
    memcg->why = "no-proc";
    if (file >= 0)
        close(file);
    if (got < 0)
        return;
    content[got] = '\0';
    memcg->why = "not-in-a-job-cgroup";
    for (char *line = strtok_r(content, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        size_t length = (size_t)(path - controllers - 1);
        /* On a machine with both hierarchies the memory controller is in one of them. */
        if (has_memory(controllers + 1, length)) {
            memcg->version = split(memcg, mount, "/memory", path + 1, job) ? 1 : 0;
            return;
        }
        if (length == 0 && split(memcg, mount, "", path + 1, job))
            memcg->version = 2;
    }
}

static int open_level(const struct memcg *memcg, enum memcg_level level, uint32_t rank)
{
    char path[PATH_MAX + 32];

    if (level == MEMCG_TASK)
        snprintf(path, sizeof path, "%s%s/task_%" PRIu32, memcg->step, memcg->version == 2 ? "/user" : "", rank);
    else
        snprintf(path, sizeof path, "%s", level == MEMCG_JOB ? memcg->job : memcg->step);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The sum of the lines that begin with "oom" and count events. */
static uint64_t sum_oom(const char *content)
{
    uint64_t sum = 0;

    for (const char *line = content; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "oom ", 4) == 0 || strncmp(line, "oom_kill ", 9) == 0 || strncmp(line, "oom_group_kill ", 15) == 0)
            sum += strtoull(strchr(line, ' '), NULL, 10);
    }
    return sum;
}

/* OOM events so far: v2 of the step (memory.events counts the subtree), v1 of the task (there oom_kill counts only in the
 * cgroup in which the victim lived). 0 also if it cannot be read. */
uint64_t memcg_oom_events(const struct memcg *memcg, uint32_t rank)
{
    char content[CONTENT];
    uint64_t events = 0;
    int folder = memcg->version ? open_level(memcg, memcg->version == 2 ? MEMCG_STEP : MEMCG_TASK, rank) : -1;

    if (folder < 0)
        return 0;
    if (read_small(folder, memcg->version == 2 ? "memory.events" : "memory.oom_control", content))
        events = sum_oom(content);
    close(folder);
    return events;
}

bool memcg_has_other_steps(const struct memcg *memcg)
{
    struct folder list;
    const char *name;
    bool other = false;

    if (memcg->version == 0 || !folder_open(&list, AT_FDCWD, memcg->job))
        return false;
    while (!other && (name = folder_next(&list)))
        other = strncmp(name, "step_", 5) == 0 && strcmp(name, "step_extern") != 0
                && strcmp(name, strrchr(memcg->step, '/') + 1) != 0;
    folder_close(&list);
    return other;
}

/* Adds " key=value" for every counter that is there; a value's lines are joined with commas. */
void memcg_report(const struct memcg *memcg, enum memcg_level level, uint32_t rank, struct text *text)
{
    char content[CONTENT];
    int folder = memcg->version ? open_level(memcg, level, rank) : -1;
    int error = errno;
    size_t before = text->used;

    if (folder < 0) {
        text_add(text, " unread=%s", memcg->version == 0 ? memcg->why : error == ENOENT ? "gone" : "no-access");
        return;
    }
    for (const struct counter *counter = memcg->version == 2 ? V2 : V1; counter->key; counter++) {
        if (!read_small(folder, counter->file, content))
            continue;
        for (char *at = content; *at; at++)
            if (*at == '\n')
                *at = ',';
        text_add(text, " %s=%s", counter->key, content);
    }
    close(folder);
    if (text->used == before)
        text_add(text, " unread=no-counters");
}
