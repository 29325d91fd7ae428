#define _GNU_SOURCE
#include "spool.h"

#include "folder.h"
#include "local_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
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

    /* The list of mounts is compared as text: one way to write a path only. */
    if (path[0] != '/' || strlen(path) >= sizeof rest || strstr(path, "//") || strstr(path, "/.") || !local_mount(path))
        return -1;
    strcpy(rest, path);
    char *name = strtok_r(rest, "/", &save);
    int folder = name ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    while (name && folder >= 0) {
        char *following = strtok_r(NULL, "/", &save);
        int below = enter(folder, name, following != NULL);
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

/* Whether "1004.1001.1796051466.79.spank" is a file of this user. */
static bool is_of(const char *name, uid_t user)
{
    const char *dot = strchr(name, '.');
    char *end = NULL;

    return dot && strtoul(dot + 1, &end, 10) == user && *end == '.';
}

/* Whether a folder holds as much as it may, of all users or of this one ((uid_t)-1: of nobody in particular), or the file
 * system has not much room left. What cannot be looked at counts as full. */
static bool is_full(int folder, uid_t user)
{
    struct folder list;
    struct statvfs room;
    struct stat found;
    long files = 0, of_user = 0;
    off_t bytes = 0;
    const char *name;

    if (!folder_open(&list, folder, "."))
        return true;
    bool full = fstatvfs(list.file, &room) != 0 || (uint64_t)room.f_bavail * room.f_frsize < SPOOL_FREE_BYTES;
    while (!full && (name = folder_next(&list))) {
        files++;
        of_user += is_of(name, user);
        if (fstatat(list.file, name, &found, AT_SYMLINK_NOFOLLOW) == 0)
            bytes += found.st_size;
        full = files >= SPOOL_FILES || of_user >= SPOOL_FILES_OF_USER || bytes >= SPOOL_BYTES;
    }
    full = full || list.failed;
    folder_close(&list);
    return full;
}

/* Appends lines to tmp/NAME with one write, so that several slurmstepd can share the file, which may become MOST bytes long.
 * Returns whether they were kept. */
bool spool_append(int spool, const char *name, const char *text, size_t size, size_t most)
{
    struct stat found;
    char last = '\n';
    bool kept = false;
    const int flags = O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int folder = subfolder(spool, "tmp");

    if (folder < 0)
        return false;
    int file = openat(folder, name, flags);
    if (file < 0 && errno == ENOENT && !is_full(folder, (uid_t)-1))
        file = openat(folder, name, flags | O_CREAT, 0600);
    if (file >= 0 && fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid()
        && (size_t)found.st_size + size <= most && !over_file_limit((size_t)found.st_size + size)) {
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
    return kept;
}

/* tmp/NAME becomes new/NEW_NAME; where there is no room for it it goes: left behind it would fill tmp/ instead. */
void spool_move(int spool, const char *name, uid_t user, const char *new_name)
{
    int from = enter(spool, "tmp", false);
    int to = subfolder(spool, "new");

    if (from >= 0 && to >= 0 && (is_full(to, user) || renameat(from, name, to, new_name) != 0)) {
        unlinkat(from, name, 0);
        drop(spool);
    }
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
}

/* A new file new/NAME, which appears there whole or not at all. */
void spool_put(int spool, uid_t user, const char *name, const char *content, size_t size)
{
    bool kept = false;
    int from = subfolder(spool, "tmp");
    int to = subfolder(spool, "new");

    if (from >= 0 && to >= 0 && !is_full(to, user) && !over_file_limit(size)) {
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
