#include "text.h"

#include <stdarg.h>
#include <stdio.h>

/* Adds one piece, or nothing of it when it does not fit: half a number would be a wrong number. */
void text_add(struct text *text, const char *format, ...)
{
    va_list arguments;
    size_t room = text->size - text->used;

    va_start(arguments, format);
    int length = vsnprintf(text->at + text->used, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room) {
        text->at[text->used] = '\0';
        text->cut = true;
        return;
    }
    text->used += (size_t)length;
}
