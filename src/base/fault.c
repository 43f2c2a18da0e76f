/* fault.c - dying or hanging at a named point, for tests. SIGKILL and not abort(): no handler, no
 * atexit, no flush may run, because none does in the crash that is being tested. */
#include "base/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

#define HANG_LOOK_US 2000
#define HANG_PATH_MAX 512

#define FAULT_ENTRY(arg, name) name,

static const char *const names[] = {FAULT_TABLE(FAULT_ENTRY, 0) NULL};

/* Hits of the armed point only, so that what happened before it was armed does not count. */
static atomic_uint_fast64_t hits;

/* A file beside the named one shows the test that a thread or process hangs. */
static void note_hit(const char *path)
{
    char name[HANG_PATH_MAX + 4];
    int fd;

    (void) snprintf(name, sizeof(name), "%s.hit", path);
    fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void) close(fd); /* nothing was written */
}

static void may_hang(const char *name)
{
    const char *armed = getenv("SANDPOOL_HANG_AT");
    size_t len = strlen(name);
    char path[HANG_PATH_MAX];

    while (armed != NULL && (strncmp(armed, name, len) != 0 || armed[len] != '=')) {
        armed = strchr(armed, ',');
        armed = armed != NULL ? armed + 1 : NULL;
    }
    if (armed == NULL)
        return;
    str_copy_cut(path, sizeof(path), armed + len + 1);
    path[strcspn(path, ",")] = '\0';
    if (access(path, F_OK) == 0)
        note_hit(path);
    while (access(path, F_OK) == 0)
        (void) usleep(HANG_LOOK_US); /* may end early: it is only a pause */
}

void fault_hit(const char *name)
{
    const char *armed = getenv("SANDPOOL_CRASH_AT");
    size_t len = strlen(name);
    uint64_t at = 1;

    may_hang(name);
    if (armed == NULL || strncmp(armed, name, len) != 0)
        return;
    if (armed[len] == ':') {
        if (!str_parse_u64(armed + len + 1, 1, UINT64_MAX, &at))
            return;
    } else if (armed[len] != '\0') {
        return;
    }
    if (atomic_fetch_add(&hits, 1) + 1 == at)
        (void) raise(SIGKILL); /* does not return */
}

uint64_t fault_time(uint64_t ns)
{
    const char *text = getenv("SANDPOOL_HURRY");
    uint64_t times = 1;

    if (text != NULL && !str_parse_u64(text, 1, 1000000, &times))
        times = 1;
    return ns / times;
}

const char *const *fault_names(void)
{
    return names;
}

bool fault_is_built_in(void)
{
#ifdef SANDPOOL_FAULTS
    return true;
#else
    return false;
#endif
}
