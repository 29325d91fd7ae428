/* Writing into the spool of docs/reference/spool.md. Nothing here reports an error: what cannot be kept is not kept. */
#ifndef SLURM_TRIAGE_SPOOL_H
#define SLURM_TRIAGE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    SPOOL_FILES = 1000,            /* in one folder */
    SPOOL_FILES_OF_USER = 250,     /* of these in new/, so that the jobs of one user leave room for others */
    SPOOL_BYTES = 64 << 20,        /* in one folder */
    SPOOL_FREE_BYTES = 32 << 20,   /* that are left to others on the file system */
    SPOOL_TASKS_BYTES = 1 << 20,   /* of the task records of one job */
    SPOOL_TICKET_BYTES = 64 << 10, /* of one ticket */
};

int spool_open(const char *path);
bool spool_has(int spool, const char *folder, const char *name);
bool spool_append(int spool, const char *name, const char *text, size_t size, size_t most);
void spool_move(int spool, const char *name, uid_t user, const char *new_name);
void spool_put(int spool, uid_t user, const char *name, const char *content, size_t size);

#endif
