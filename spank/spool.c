#define _GNU_SOURCE
#include "spool.h"

#include "local_mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHERS_WRITE = S_IWGRP | S_IWOTH, DROPPED_BYTES = 1 << 20 };

/* A folder below `at`, or -1: never through a symbolic link, and not where somebody else could put a file. Above the
 * spool a sticky folder will do: nobody can replace what another owns there. */
static int enter(int at, const char *name, bool sticky_will_do)
{
    struct stat found;
    int folder = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (folder < 0)
        return -1;
    bool safe = fstat(folder, &found) == 0 && (found.st_uid == 0 || found.st_uid == geteuid())
                && ((found.st_mode & OTHERS_WRITE) == 0 || (sticky_will_do && (found.st_mode & S_ISVTX)));
    if (safe && !sticky_will_do)
        safe = found.st_uid == geteuid();
    if (!safe) {
        close(folder);
        return -1;
    }
    return folder;
}

/* Returns a descriptor of the spool, or -1 if there is none, if it is switched off, or if it is not a folder of our own
 * on a local file system: one that hangs would hold the job. */
int spool_open(const char *path)
{
    char rest[PATH_MAX];
    char *save = NULL;

    if (path[0] != '/' || strlen(path) >= sizeof rest || !local_mount(path))
        return -1;
    strcpy(rest, path);
    char *name = strtok_r(rest, "/", &save);
    int folder = name ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    while (name && folder >= 0) {
        char *following = strtok_r(NULL, "/", &save);
        int below = strcmp(name, "..") == 0 ? -1 : enter(folder, name, following != NULL);
        close(folder);
        folder = below;
        name = following;
    }
    if (folder >= 0 && faccessat(folder, "disabled", F_OK, 0) == 0) {
        close(folder);
        return -1;
    }
    return folder;
}

/* A folder of the spool, made if it is not there yet. */
static int subfolder(int spool, const char *name)
{
    int folder = enter(spool, name, false);

    if (folder < 0 && errno == ENOENT && mkdirat(spool, name, 0700) == 0)
        folder = enter(spool, name, false);
    return folder;
}

bool spool_has(int spool, const char *folder, const char *name)
{
    int within = enter(spool, folder, false);

    if (within < 0)
        return false;
    bool found = faccessat(within, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    close(within);
    return found;
}

/* A write beyond this limit would be a SIGXFSZ for slurmstepd. */
static bool over_file_limit(size_t size)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < size);
}

/* Counts one record that could not be kept. */
static void drop(int spool)
{
    struct stat found;
    int file = openat(spool, "dropped", O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

    if (file < 0)
        return;
    bool counted = fstat(file, &found) == 0 && found.st_size < DROPPED_BYTES
                   && !over_file_limit((size_t)found.st_size + 1) && write(file, "1", 1) == 1;
    (void)counted; /* nobody is left to tell */
    close(file);
}

/* Whether a folder holds as many files as it may. */
static bool crowded(int folder)
{
    int entries = 0;
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again < 0 ? NULL : fdopendir(again);

    if (!list) {
        if (again >= 0)
            close(again);
        return true;
    }
    while (entries < SPOOL_ENTRIES + 2 && readdir(list)) /* with . and .. */
        entries++;
    closedir(list);
    return entries >= SPOOL_ENTRIES + 2;
}

/* Appends lines to tmp/NAME with one write, so that several slurmstepd can share the file. */
void spool_append(int spool, const char *name, const char *text, size_t size)
{
    struct stat found;
    char last = '\n';
    bool kept = false;
    const int flags = O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int folder = subfolder(spool, "tmp");

    if (folder < 0)
        return;
    int file = openat(folder, name, flags);
    if (file < 0 && errno == ENOENT && !crowded(folder))
        file = openat(folder, name, flags | O_CREAT, 0600);
    if (file >= 0 && fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid()
        && found.st_size + (off_t)size <= SPOOL_TASKS_BYTES && !over_file_limit((size_t)found.st_size + size)) {
        /* What a full disk has torn must not swallow this record too: the text begins with a newline to skip. */
        if (found.st_size > 0 && pread(file, &last, 1, found.st_size - 1) != 1)
            last = '\n';
        size_t skip = last == '\n' ? 1 : 0;
        kept = write(file, text + skip, size - skip) == (ssize_t)(size - skip);
    }
    if (file >= 0)
        close(file);
    close(folder);
    if (!kept)
        drop(spool);
}

/* tmp/NAME becomes new/NEW_NAME. */
void spool_move(int spool, const char *name, const char *new_name)
{
    int from = enter(spool, "tmp", false);
    int to = subfolder(spool, "new");

    if (from >= 0 && to >= 0)
        renameat(from, name, to, new_name);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
}

/* A new file new/NAME, which appears there whole or not at all. */
void spool_put(int spool, const char *name, const char *content, size_t size)
{
    bool kept = false;
    int from = subfolder(spool, "tmp");
    int to = subfolder(spool, "new");

    if (from >= 0 && to >= 0 && !crowded(to) && !over_file_limit(size)) {
        int file = openat(from, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file >= 0) {
            kept = write(file, content, size) == (ssize_t)size;
            kept = close(file) == 0 && kept;
            kept = kept && renameat(from, name, to, name) == 0;
            if (!kept)
                unlinkat(from, name, 0);
        }
    }
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    if (!kept)
        drop(spool);
}
