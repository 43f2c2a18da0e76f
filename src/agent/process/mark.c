/* mark.c - see mark.h. */
#include "agent/process/mark.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/rand.h"

/* 2^32 agents with 2^30 processes each. */
#define MARK_MIN (1ULL << 62)
#define MARK_SHIFT 30

uint64_t mark_first(void)
{
    uint32_t agent;

    rand_secure(&agent, sizeof(agent));
    return MARK_MIN + ((uint64_t) agent << MARK_SHIFT);
}

void mark_set(uint64_t mark)
{
    const struct rlimit limit = {.rlim_cur = mark, .rlim_max = mark};

    if (mark != 0)
        (void) setrlimit(RLIMIT_RSS, &limit); /* without it fewer are found */
}

uint64_t mark_of(pid_t pid)
{
    static const char line[] = "\nMax resident set";
    char path[32];
    char text[2048];
    const char *at;
    unsigned long long mark;

    (void) snprintf(path, sizeof(path), "/proc/%d/limits", (int) pid);
    if (file_read_start(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return 0;
    at = strstr(text, line);
    if (at == NULL)
        return 0;
    mark = strtoull(at + strlen(line), NULL, 10); /* "unlimited" is 0 */
    return mark >= MARK_MIN ? mark : 0;
}
