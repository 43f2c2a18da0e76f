/* freezer.c - the freezer of control groups, version 1 and 2. */
#include "helper/freezer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/proc.h"

#define FREEZE_MS 10000 /* a process in the middle of a long system call stops after it */

struct freezer {
    const char *root;
    const char *file;
    const char *frozen;
    const char *thawed;
    const char *state_file;
    const char *is_frozen; /* what the state has then */
};

static const struct freezer versions[] = {
    {"/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"},
    {"/sys/fs/cgroup", "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"},
};

static int open_file(const struct freezer *f, const char *cgroup, const char *file, int flags)
{
    char path[768];

    if ((size_t) snprintf(path, sizeof(path), "%s%s/%s", f->root, cgroup, file) >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_CLOEXEC);
}

static bool write_state(const struct freezer *f, const char *cgroup, bool is_frozen)
{
    AUTO_CLOSE int fd = open_file(f, cgroup, f->file, O_WRONLY);
    const char *text = is_frozen ? f->frozen : f->thawed;

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text);
}

/* False and errno 0: not yet. */
static bool has_state(const struct freezer *f, const char *cgroup, bool is_frozen)
{
    AUTO_CLOSE int fd = open_file(f, cgroup, f->state_file, O_RDONLY);
    char text[256];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (n < 0)
        return false;
    text[n] = '\0';
    errno = 0;
    return (strstr(text, f->is_frozen) != NULL) == is_frozen;
}

/* The group is removed while we are at it. */
static bool is_gone(int sys)
{
    return sys == ENOENT || sys == ENODEV;
}

static const struct freezer *find(const char *cgroup)
{
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        AUTO_CLOSE int fd = open_file(&versions[i], cgroup, versions[i].file, O_WRONLY);

        if (fd >= 0)
            return &versions[i];
    }
    return NULL;
}

bool freezer_is_frozen(const char *cgroup)
{
    for (size_t i = 0; i < ARRAY_LEN(versions); i++)
        if (has_state(&versions[i], cgroup, true))
            return true;
    return false;
}

int freezer_set(const char *cgroup, bool is_frozen, struct err *err)
{
    const struct freezer *f = find(cgroup);
    uint64_t deadline = proc_now_ms() + FREEZE_MS;

    if (f == NULL)
        return err_sys(err, SP_UNSUPPORTED, errno,
                       "the box has no control group that can be frozen");
    if (!write_state(f, cgroup, is_frozen))
        return err_sys(err, is_gone(errno) ? SP_NOT_FOUND : SP_IO, errno,
                       is_frozen ? "freeze the box" : "thaw the box");
    while (!has_state(f, cgroup, is_frozen)) {
        if (is_gone(errno))
            return err_set(err, SP_NOT_FOUND, "the box has ended");
        if (proc_now_ms() > deadline) {
            (void) write_state(f, cgroup, false); /* the first error is the one to report */
            return err_set(err, SP_TIMEOUT, "the box did not stand still within %d s",
                           FREEZE_MS / 1000);
        }
        proc_sleep_ms(1);
    }
    return SP_OK;
}
