/* The names in a folder, one after the other, without the heap that readdir(3) would take from. */
#ifndef SLURM_TRIAGE_FOLDER_H
#define SLURM_TRIAGE_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

struct folder {
    int file;
    long got, at;
    bool failed; /* the list could not be read to its end */
    _Alignas(uint64_t) char chunk[8192];
};

bool folder_open(struct folder *folder, int at, const char *name);
const char *folder_next(struct folder *folder);
void folder_close(struct folder *folder);

#endif
