#define _GNU_SOURCE
#include "kernel_sign.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>

enum { NEWEST = 128 << 10, READ_ALL = 3 /* SYSLOG_ACTION_READ_ALL, syslog(2): the last bytes of the ring */ };

/* A first look only, to decide whether anybody should read on. The wording is that of the drivers, at the beginning of the
 * message; # stands for digits. A process can have such a name, and the kernel begins the line of a crash with it: but
 * names have 15 bytes, and "[pid]" follows. */
static const char *const SIGNS[] = {
    "NVRM: Xid (PCI:#",      "nvidia-nvswitch#: SXid", "mce: [Hardware Error]", "{#}[Hardware Error]",
    "EDAC MC#: # CE ",       "EDAC MC#: # UE ",        "Memory failure: 0x",
};

static bool begins(const char *message, size_t length, const char *sign)
{
    const char *end = message + length;

    for (; *sign; sign++) {
        if (*sign == '#') {
            if (message == end || !isxdigit((unsigned char)*message))
                return false;
            while (message < end && isxdigit((unsigned char)*message))
                message++;
        } else if (message == end || *message++ != *sign) {
            return false;
        }
    }
    return message < end && *message != '[';
}

static bool is_sign(const char *message, size_t length)
{
    for (size_t i = 0; i < sizeof SIGNS / sizeof SIGNS[0]; i++)
        if (begins(message, length, SIGNS[i]))
            return true;
    return false;
}

/* Whether a log in the form of syslog(2), "<6>[  12.345678] text", has a sign at or after SINCE (seconds since boot).
 * The number in angle brackets is facility * 8 + level: what a process wrote into the log has a facility, and is no
 * sign. A log without times (printk.time=0) has none either: when it was cannot be told. */
bool kernel_sign_in(const char *log, double since)
{
    for (const char *line = log; *line;) {
        size_t length = strcspn(line, "\n");
        char *at = NULL;
        if (line[0] == '<' && isdigit((unsigned char)line[1])) {
            unsigned long number = strtoul(line + 1, &at, 10);
            if (number < 8 && at[0] == '>' && at[1] == '[') {
                double time = strtod(at + 2, &at);
                size_t read = (size_t)(at - line); /* strtod() skips newlines too */
                bool now = read + 2 < length && at[0] == ']' && at[1] == ' ' && time >= since;
                if (now && is_sign(at + 2, length - read - 2))
                    return true;
            }
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

bool kernel_sign(double since)
{
    char log[NEWEST + 1];
    int got = klogctl(READ_ALL, log, NEWEST);

    if (got <= 0)
        return false;
    log[got] = '\0';
    return kernel_sign_in(log, since);
}
