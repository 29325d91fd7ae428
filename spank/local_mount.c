#define _GNU_SOURCE
#include "local_mount.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#ifndef MOUNTINFO
#define MOUNTINFO "/proc/self/mountinfo"
#endif

/* The file systems that cannot wait for another machine or for a process. Not named is not local. */
static const char *const LOCAL[] = {
    "ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "rootfs", "overlay", "zfs", "f2fs", "bcachefs", "jfs",
};

enum { LINE = 4096 + 512, MOST_BYTES = 4 << 20 };

static bool is_local(const char *type, size_t length)
{
    for (size_t i = 0; i < sizeof LOCAL / sizeof LOCAL[0]; i++)
        if (strlen(LOCAL[i]) == length && strncmp(type, LOCAL[i], length) == 0)
            return true;
    return false;
}

/* Replaces the kernel's \ooo for space, tab, newline and backslash. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0'
            && from[3] <= '7') {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* Length of MOUNT if PATH lies on or below it, else -1. */
static int reach(const char *mount, const char *path)
{
    size_t length = strlen(mount);

    if (length == 1 && mount[0] == '/')
        return 0;
    if (strncmp(mount, path, length) != 0 || (path[length] != '/' && path[length] != '\0'))
        return -1;
    return (int)length;
}

/* One line: "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw" (proc_pid_mountinfo(5)). */
static void weigh(char *line, const char *path, int *best, bool *local)
{
    char *save = NULL;
    char *field = strtok_r(line, " ", &save);

    for (int i = 0; i < 4 && field; i++)
        field = strtok_r(NULL, " ", &save);
    if (!field)
        return;
    unescape(field);
    int length = reach(field, path);
    if (length < *best) /* of two mounts on one place the later one counts */
        return;
    *best = length;
    *local = false;
    while ((field = strtok_r(NULL, " ", &save)) && strcmp(field, "-") != 0)
        ;
    if (field && (field = strtok_r(NULL, " ", &save)))
        *local = is_local(field, strlen(field));
}

static bool look(const char *path)
{
    char chunk[8192], line[LINE];
    size_t used = 0, total = 0;
    int best = 0;
    bool local = false;
    ssize_t got;
    int file = open(MOUNTINFO, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return false;
    while ((got = read(file, chunk, sizeof chunk)) > 0) {
        total += (size_t)got;
        if (total > MOST_BYTES)
            break;
        for (ssize_t i = 0; i < got; i++) {
            if (chunk[i] != '\n') {
                /* The options of the file system, which can be long, come after all that is read here. */
                if (used < sizeof line - 1)
                    line[used++] = chunk[i];
                continue;
            }
            line[used] = '\0';
            used = 0;
            weigh(line, path, &best, &local);
        }
    }
    close(file);
    return got == 0 && local;
}

/* The answer is kept: a slurmstepd asks for every abnormal task, about one path. */
bool local_mount(const char *path)
{
    static char known[PATH_MAX];
    static bool answer;

    if (strlen(path) >= sizeof known)
        return false;
    if (strcmp(known, path) != 0) {
        answer = look(path);
        strcpy(known, path);
    }
    return answer;
}
