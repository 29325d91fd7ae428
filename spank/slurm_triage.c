/* SPANK plugin of slurm-triage: writes down what slurmstepd and slurmd know when a task and a job end.
 *
 *     optional /usr/lib/slurm-triage/slurm_triage.so [spool=DIR] [cgroup=DIR] [runinjob]        (plugstack.conf)
 *
 * spool= names the spool (default /var/spool/slurm-triage), cgroup= where the cgroups are mounted (default /sys/fs/cgroup,
 * CgroupMountpoint of cgroup.conf). runinjob belongs with PrologFlags=RunInJob: slurmd calls no job_epilog then, and
 * the last step to end writes the ticket. docs/reference/spool.md says what is written.
 *
 * It lives inside slurmstepd: a crash here would be a crash of the job's step. So there is no fork, no heap, no lock, no
 * shared file system, nothing that waits; every callback returns 0, and what cannot be written is not written.
 * job_epilog returning anything else would drain the node.
 */
#define _GNU_SOURCE
#include "kernel_sign.h"
#include "memcg.h"
#include "spool.h"
#include "text.h"

#include <slurm/spank.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

SPANK_PLUGIN(slurm_triage, 1)

enum {
    RECORD = 12288,           /* bytes of one record: identity with GROUPS groups, and three levels of counters */
    GROUPS = 256,             /* supplementary groups that are named */
    NAME = 200,               /* bytes of the longest job name that is written, before it is encoded */
    AGAIN_NS = 100 * 1000000, /* the step's and the job's counters are read again no sooner, unless an OOM event came */
};

#define EXTERNAL_STEP 0xfffffffcu
#define NO_ARRAY_TASK 0xfffffffeu /* NO_VAL of slurm.h */

/* Step ids that are no numbers (slurm.h). */
static const struct {
    uint32_t id;
    const char *name;
} NAMED_STEPS[] = {{0xfffffffd, "pending"}, {EXTERNAL_STEP, "extern"}, {0xfffffffb, "batch"}, {0xfffffffa, "interactive"}};

struct options {
    const char *spool;
    const char *cgroup;
    bool in_job;
};

/* What this slurmstepd has seen so far; it serves one step, and calls back one task at a time. */
static struct {
    uint32_t clean;      /* tasks that ended with status 0 before the first record */
    uint32_t lost;       /* tasks whose record could not be kept */
    bool recorded;       /* a record was kept: from now on every task gets one */
    pid_t pid;           /* of this slurmstepd, or with contain_spank of its first helper: one for all records */
    uint64_t oom_events; /* at the last reading of the step's and the job's counters */
    int64_t read_at;     /* CLOCK_MONOTONIC of that reading, ns; 0: none */
    bool placed;         /* `memcg` is filled in */
    struct memcg memcg;
} seen;

static struct options options_of(int count, char **arguments)
{
    struct options options = {"/var/spool/slurm-triage", "/sys/fs/cgroup", false};

    for (int i = 0; i < count; i++) {
        if (strncmp(arguments[i], "spool=", 6) == 0)
            options.spool = arguments[i] + 6;
        else if (strncmp(arguments[i], "cgroup=", 7) == 0)
            options.cgroup = arguments[i] + 7;
        else if (strcmp(arguments[i], "runinjob") == 0)
            options.in_job = true;
    }
    return options;
}

static int64_t now_ns(clockid_t clock)
{
    struct timespec now = {0, 0};

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The host's name up to the first dot: the node's name, unless NodeHostname says otherwise. */
static void node_name(char name[65])
{
    if (gethostname(name, 65) != 0)
        name[0] = '\0';
    name[64] = '\0';
    name[strcspn(name, ". \t\n")] = '\0';
    if (name[0] == '\0')
        strcpy(name, "-");
}

static void boot_id(char id[64])
{
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? 0 : read(file, id, 63);

    if (file >= 0)
        close(file);
    id[got > 0 ? got : 0] = '\0';
    id[strcspn(id, "\n")] = '\0';
}

/* Adds " key=number" for an item that is an uint32_t. */
static void add_number(struct text *text, spank_t spank, spank_item_t item, const char *key)
{
    uint32_t number;

    if (spank_get_item(spank, item, &number) == ESPANK_SUCCESS)
        text_add(text, " %s=%" PRIu32, key, number);
}

/* The same for a number of which 0 says that Slurm does not know it. */
static void add_count(struct text *text, spank_t spank, spank_item_t item, const char *key)
{
    uint32_t number;

    if (spank_get_item(spank, item, &number) == ESPANK_SUCCESS && number != 0)
        text_add(text, " %s=%" PRIu32, key, number);
}

static const char *name_of(uint32_t step)
{
    for (size_t i = 0; i < sizeof NAMED_STEPS / sizeof NAMED_STEPS[0]; i++)
        if (NAMED_STEPS[i].id == step)
            return NAMED_STEPS[i].name;
    return NULL;
}

static void add_groups(struct text *text, spank_t spank)
{
    gid_t *groups = NULL;
    int count = 0;

    if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &count) != ESPANK_SUCCESS || count <= 0 || !groups)
        return;
    for (int i = 0; i < count && i < GROUPS; i++)
        text_add(text, "%s%" PRIu32, i ? "," : " groups=", (uint32_t)groups[i]);
    if (count > GROUPS)
        text_add(text, " more=%d", count - GROUPS);
}

/* "1796051466.587 node=c1 stepd=43 task_exit job=1004 step=0", the beginning of every line. */
static void add_head(struct text *text, const char *what, int64_t at, const char *node, uint32_t job, uint32_t step)
{
    const char *name = name_of(step);

    text_add(text, "%" PRId64 ".%03d node=%s stepd=%d %s job=%" PRIu32, at / 1000000000, (int)(at / 1000000 % 1000), node,
             (int)seen.pid, what, job);
    if (name)
        text_add(text, " step=%s", name);
    else
        text_add(text, " step=%" PRIu32, step);
}

/* " array=1001_4", for the task of an array only. */
static void add_array(struct text *text, spank_t spank)
{
    uint32_t array, task;

    if (spank_get_item(spank, S_JOB_ARRAY_ID, &array) == ESPANK_SUCCESS && array != 0
        && spank_get_item(spank, S_JOB_ARRAY_TASK_ID, &task) == ESPANK_SUCCESS && task < NO_ARRAY_TASK)
        text_add(text, " array=%" PRIu32 "_%" PRIu32, array, task);
}

/* " name=fit%201": a user's text, so all but letters, digits and ._- is percent-encoded. A name that is too long is left
 * out: a part of it would be another name. */
static void add_name(struct text *text, spank_t spank)
{
    static const char PLAIN[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    char name[NAME + 1];
    TEXT(encoded, 3 * NAME + 1);

    if (spank_getenv(spank, "SLURM_JOB_NAME", name, sizeof name) != ESPANK_SUCCESS)
        return;
    for (const char *at = name; *at; at++)
        text_add(&encoded, strchr(PLAIN, *at) ? "%c" : "%%%02X", (unsigned char)*at);
    text_add(text, " name=%s", encoded.at);
}

static void add_identity(struct text *text, spank_t spank, uint32_t step)
{
    char boot[64];
    char *version = NULL;

    add_number(text, spank, S_JOB_UID, "uid");
    add_number(text, spank, S_JOB_GID, "gid");
    add_groups(text, spank);
    add_number(text, spank, S_SLURM_RESTART_COUNT, "restart");
    add_count(text, spank, S_JOB_LOCAL_TASK_COUNT, "tasks");
    if (!name_of(step)) { /* a batch step has one task, and Slurm answers for the whole job */
        add_count(text, spank, S_JOB_TOTAL_TASK_COUNT, "of");
        add_count(text, spank, S_JOB_NNODES, "nodes");
    }
    /* From 26.05 on the kernel log names a job by this (SLUID), not by its number. */
    const char *folder = seen.memcg.version ? strrchr(seen.memcg.job, '/') + 1 : "job_";
    if (strncmp(folder, "job_", 4) != 0)
        text_add(text, " cgroup=%s", folder);
    boot_id(boot);
    if (boot[0])
        text_add(text, " boot=%s", boot);
    if (spank_get_item(spank, S_SLURM_VERSION, &version) == ESPANK_SUCCESS && version)
        text_add(text, " slurm=%.32s", version);
    add_array(text, spank);
    add_name(text, spank);
}

static void record_task(spank_t spank, const struct options *options, uint32_t job, uint32_t step, uint32_t rank,
                        int status, uint64_t oom_events)
{
    static const char *const LEVELS[] = {"task", "step", "job"};
    const int64_t at = now_ns(CLOCK_REALTIME), mono = now_ns(CLOCK_MONOTONIC);
    char node[65], name[32];
    int local;
    pid_t pid;
    TEXT(record, RECORD);

    int spool = spool_open(options->spool);
    if (spool < 0)
        return;
    node_name(node);
    text_add(&record, "\n"); /* spool_append() leaves it out after a whole line */
    if (!seen.recorded) {
        add_head(&record, "step_info", at, node, job, step);
        add_identity(&record, spank, step);
        text_add(&record, "\n");
    }
    add_head(&record, "task_exit", at, node, job, step);
    text_add(&record, " rank=%" PRIu32, rank);
    if (spank_get_item(spank, S_TASK_ID, &local) == ESPANK_SUCCESS)
        text_add(&record, " local=%d", local);
    if (spank_get_item(spank, S_TASK_PID, &pid) == ESPANK_SUCCESS)
        text_add(&record, " pid=%d", (int)pid);
    text_add(&record, " status=0x%04x mono=%" PRId64 ".%06d clean=%" PRIu32, (unsigned)status & 0xffff,
             mono / 1000000000, (int)(mono / 1000 % 1000000), seen.clean);
    if (seen.lost)
        text_add(&record, " lost=%" PRIu32, seen.lost);
    text_add(&record, "\n");
    bool again = seen.read_at == 0 || oom_events != seen.oom_events || mono - seen.read_at >= AGAIN_NS;
    for (int level = MEMCG_TASK; level <= (again ? MEMCG_JOB : MEMCG_TASK); level++) {
        add_head(&record, "task_exit", at, node, job, step);
        text_add(&record, " memcg %s", LEVELS[level]);
        memcg_report(&seen.memcg, level, rank, &record);
        text_add(&record, "\n");
    }
    snprintf(name, sizeof name, "%" PRIu32 ".tasks", job);
    /* The last quarter is for tasks that failed, whatever those that did not have filled before. */
    const size_t most = status ? SPOOL_TASKS_BYTES : SPOOL_TASKS_BYTES / 4 * 3;
    if (!spool_append(spool, name, record.at, record.used, most)) {
        seen.lost++;
    } else {
        seen.recorded = true;
        if (again) {
            seen.read_at = mono;
            seen.oom_events = oom_events;
        }
    }
    close(spool);
}

static void task_exit(spank_t spank, const struct options *options)
{
    uint32_t job, step, rank;
    int status;

    if (spank_get_item(spank, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS
        || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS
        || spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS
        || spank_get_item(spank, S_TASK_GLOBAL_ID, &rank) != ESPANK_SUCCESS)
        return;
    if (!seen.placed) {
        seen.pid = getpid();
        memcg_find(&seen.memcg, options->cgroup, job);
        seen.placed = true;
    }
    uint64_t oom_events = memcg_oom_events(&seen.memcg, rank);
    if (status == 0 && oom_events == 0 && !seen.recorded) {
        seen.clean++;
        return;
    }
    record_task(spank, options, job, step, rank, status, oom_events);
}

/* Whether a variable of the hook is there and is neither empty, "0" nor "0:0". */
static bool not_zero(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] && strcmp(value, "0") != 0 && strcmp(value, "0:0") != 0;
}

/* When the job began, in seconds of CLOCK_MONOTONIC, from the hook's environment; 22.05 does not say. -1: unknown. */
static double start_of_job(void)
{
    const char *start = getenv("SLURM_JOB_START_TIME");
    char *end = NULL;
    double began = start ? strtod(start, &end) : 0;

    if (began <= 0 || *end)
        return -1;
    double age = (double)now_ns(CLOCK_REALTIME) / 1e9 - began;
    return (double)now_ns(CLOCK_MONOTONIC) / 1e9 - age - 1;
}

/* When this process began, likewise: the 20th number after the name in /proc/self/stat, in clock ticks. */
static double start_of_self(void)
{
    char content[1024];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, content, sizeof content - 1);

    if (file >= 0)
        close(file);
    content[got > 0 ? got : 0] = '\0';
    const char *at = strrchr(content, ')');
    for (int field = 0; at && field < 20; field++)
        at = strchr(at + 1, ' ');
    return at ? strtod(at, NULL) / (double)sysconf(_SC_CLK_TCK) - 1 : -1;
}

/* One variable and its NUL, or nothing of it. */
static void add_variable(struct text *ticket, const char *variable)
{
    const size_t length = strlen(variable) + 1;

    if (ticket->used + length > ticket->size) {
        ticket->cut = true;
        return;
    }
    memcpy(ticket->at + ticket->used, variable, length);
    ticket->used += length;
}

/* The variables of Slurm, or all others: the latter can be a user's (SPANK_...), and must not take the room. */
static void add_variables(struct text *ticket, bool of_slurm)
{
    extern char **environ;

    for (char **variable = environ; variable && *variable; variable++)
        if ((strncmp(*variable, "SLURM", 5) == 0) == of_slurm)
            add_variable(ticket, *variable);
}

/* Ends a variable that text_add() has put into the ticket: its NUL is there already. */
static void end_variable(struct text *ticket)
{
    ticket->used++;
}

/* Our own variables, which come first. */
static void add_own(struct text *ticket, const char *why)
{
    const int64_t at = now_ns(CLOCK_REALTIME);
    char boot[64];

    text_add(ticket, "SLURM_TRIAGE_TIME=%" PRId64 ".%09d", at / 1000000000, (int)(at % 1000000000));
    end_variable(ticket);
    boot_id(boot);
    text_add(ticket, "SLURM_TRIAGE_BOOT_ID=%s", boot);
    end_variable(ticket);
    text_add(ticket, "SLURM_TRIAGE_WHY=%s", why);
    end_variable(ticket);
}

/* The environment that slurmd made for its Epilog is that of this process too. */
static void add_environment(struct text *ticket)
{
    static const char CUT[] = "SLURM_TRIAGE_CUT=1";

    ticket->size -= sizeof CUT;
    add_variables(ticket, true);
    add_variables(ticket, false);
    ticket->size += sizeof CUT;
    if (ticket->cut)
        add_variable(ticket, CUT);
}

/* In slurmstepd there is no such environment: what can be had of it. */
static void add_items(struct text *ticket, spank_t spank, uint32_t job, uid_t user)
{
    char node[65];
    gid_t group;

    text_add(ticket, "SLURM_JOB_ID=%" PRIu32, job);
    end_variable(ticket);
    text_add(ticket, "SLURM_JOB_UID=%" PRIu32, (uint32_t)user);
    end_variable(ticket);
    if (spank_get_item(spank, S_JOB_GID, &group) == ESPANK_SUCCESS) {
        text_add(ticket, "SLURM_JOB_GID=%" PRIu32, (uint32_t)group);
        end_variable(ticket);
    }
    node_name(node);
    text_add(ticket, "SLURMD_NODENAME=%s", node);
    end_variable(ticket);
}

/* The end of the job on this node: moves its task records and writes the ticket, if there is a sign of anything. */
static void end_of_job(spank_t spank, const struct options *options, bool in_slurmstepd)
{
    uint32_t job;
    uid_t user;
    char tasks[32], name[96];
    TEXT(why, 32);
    TEXT(ticket, SPOOL_TICKET_BYTES);

    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS || spank_get_item(spank, S_JOB_UID, &user) != ESPANK_SUCCESS)
        return;
    int spool = spool_open(options->spool);
    if (spool < 0)
        return;
    snprintf(tasks, sizeof tasks, "%" PRIu32 ".tasks", job);
    bool has_tasks = spool_has(spool, "tmp", tasks);
    if (has_tasks)
        text_add(&why, "tasks");
    if (!in_slurmstepd
        && (not_zero("SLURM_JOB_EXIT_CODE") || not_zero("SLURM_JOB_EXIT_CODE2") || not_zero("SLURM_JOB_DERIVED_EC")))
        text_add(&why, "%sexit", why.used ? "," : "");
    double since = why.used ? -1 : in_slurmstepd ? start_of_self() : start_of_job();
    if (since >= 0 && kernel_sign(since))
        text_add(&why, "kernel");
    if (why.used) {
        const int64_t seconds = now_ns(CLOCK_REALTIME) / 1000000000;
        const int stem = snprintf(name, sizeof name, "%" PRIu32 ".%" PRIu32 ".%" PRId64 ".%d.", job, (uint32_t)user, seconds,
                                  (int)getpid());
        if (has_tasks) {
            strcpy(name + stem, "tasks");
            spool_move(spool, tasks, user, name);
        }
        add_own(&ticket, why.at);
        if (in_slurmstepd)
            add_items(&ticket, spank, job, user);
        else
            add_environment(&ticket);
        strcpy(name + stem, "spank");
        spool_put(spool, user, name, ticket.at, ticket.used);
    }
    close(spool);
}

/* In slurmstepd, once per task, as its wait status is collected. */
int slurm_spank_task_exit(spank_t spank, int count, char **arguments)
{
    const int error = errno;
    const struct options options = options_of(count, arguments);

    task_exit(spank, &options);
    errno = error;
    return 0;
}

/* On each node of the job after its last process is gone, in a process of its own with the environment of Epilog. */
int slurm_spank_job_epilog(spank_t spank, int count, char **arguments)
{
    const int error = errno;
    const struct options options = options_of(count, arguments);

    end_of_job(spank, &options, false);
    errno = error;
    return 0;
}

/* In slurmstepd as it ends, also in srun and sbatch. With PrologFlags=RunInJob the last step of the job writes the ticket: mostly
 * the batch step, the external one if there is no other. That one can end before tasks that ignore SIGTERM. */
int slurm_spank_exit(spank_t spank, int count, char **arguments)
{
    const int error = errno;
    const struct options options = options_of(count, arguments);
    uint32_t job, step;

    if (options.in_job && spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS
        && spank_get_item(spank, S_JOB_ID, &job) == ESPANK_SUCCESS && (seen.placed || step == EXTERNAL_STEP)) {
        if (!seen.placed)
            memcg_find(&seen.memcg, options.cgroup, job);
        if ((seen.memcg.version || step == EXTERNAL_STEP) && !memcg_has_other_steps(&seen.memcg))
            end_of_job(spank, &options, true);
    }
    errno = error;
    return 0;
}
