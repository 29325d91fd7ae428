#define _GNU_SOURCE
#include "folder.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the kernel writes for getdents64(2). */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

/* Opens NAME below the folder AT (AT_FDCWD for a path). */
bool folder_open(struct folder *folder, int at, const char *name)
{
    folder->got = folder->at = 0;
    folder->file = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    folder->failed = folder->file < 0;
    return !folder->failed;
}

/* The next name that does not begin with a dot, or NULL. */
const char *folder_next(struct folder *folder)
{
    for (;;) {
        if (folder->at >= folder->got) {
            folder->at = 0;
            folder->got = syscall(SYS_getdents64, folder->file, folder->chunk, sizeof folder->chunk);
            folder->failed = folder->got < 0;
            if (folder->got <= 0)
                return NULL;
        }
        const struct entry *entry = (const struct entry *)(folder->chunk + folder->at);
        folder->at += entry->length;
        if (entry->name[0] != '.')
            return entry->name;
    }
}

void folder_close(struct folder *folder)
{
    close(folder->file);
}
