/* Text of bounded length that is put together piece by piece, without allocation. */
#ifndef SLURM_TRIAGE_TEXT_H
#define SLURM_TRIAGE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct text {
    char *at;
    size_t size; /* of the room, with the final NUL */
    size_t used;
    bool cut; /* a piece did not fit and was left out whole */
};

/* A text with room for SIZE - 1 characters on the stack. */
#define TEXT(name, room)     \
    char name##_room[room];  \
    struct text name = {name##_room, sizeof name##_room, 0, false}

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
