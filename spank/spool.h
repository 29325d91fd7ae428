/* Writing into the spool of docs/reference/spool.md. Nothing here reports an error: what cannot be kept is not kept. */
#ifndef SLURM_TRIAGE_SPOOL_H
#define SLURM_TRIAGE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SPOOL_ENTRIES = 1000,          /* files in one folder */
    SPOOL_TASKS_BYTES = 1 << 20,   /* of the task records of one job */
    SPOOL_TICKET_BYTES = 64 << 10, /* of one ticket */
};

int spool_open(const char *path);
bool spool_has(int spool, const char *folder, const char *name);
void spool_append(int spool, const char *name, const char *text, size_t size);
void spool_move(int spool, const char *name, const char *new_name);
void spool_put(int spool, const char *name, const char *content, size_t size);

#endif
