/* reclaim.c - asks the kernel to take back what a box holds while it stands still: pages of files, which can be read again, and where
 * the machine has swap all the rest. Version 2 of control groups has memory.reclaim for that, version 1 memory.force_empty. */
#include "helper/reclaim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "helper/freezer.h"
#include "helper/proc.h"
#include "helper/start.h"

#define RECLAIM_MS 10000 /* all of it */
#define SLICE_MS 200     /* after which it is looked whether the box still stands still */
#define PAUSE_MS 50      /* for pages that are being written */

enum { GROUP_MAX = 2048, TEXT_MAX = 4096, STAT_MAX = 16 * 1024 };

struct way {
    const char *root;
    const char *controller; /* of a line of /proc/<pid>/cgroup; version 2 has none */
    const char *file;
    const char *usage;
    const char *dirty[2]; /* lines of memory.stat */
    bool has_text;        /* how much is asked for */
};

static const struct way ways[] = {
    {"/sys/fs/cgroup/memory",
     "memory",
     "memory.force_empty",
     "memory.usage_in_bytes",
     {"\ntotal_dirty ", "\ntotal_writeback "},
     false},
    {"/sys/fs/cgroup",
     "",
     "memory.reclaim",
     "memory.current",
     {"\nfile_dirty ", "\nfile_writeback "},
     true},
};

struct reclaiming {
    const struct way *way;
    int dir;               /* of the group whose memory it is */
    char group[GROUP_MAX]; /* its path */
    char frozen
        [GROUP_MAX]; /* that of one which shows whether the box stands still: this one, or one below */
};

/* --- which group --- */

static bool has_controller(const char *names, size_t len, const char *name)
{
    size_t name_len = strlen(name);

    for (size_t at = 0; at < len;) {
        size_t part = 0;

        while (at + part < len && names[at + part] != ',')
            part++;
        if (part == name_len && memcmp(names + at, name, part) == 0)
            return true;
        at += part + 1;
    }
    return len == 0 && name_len == 0;
}

/* The group that is named after the container, of a line of /proc/<pid>/cgroup; the process may be in one below it. */
static bool take_line(struct reclaiming *r, const char *line, size_t len, const char *container)
{
    const char *names = memchr(line, ':', len);
    const char *path =
        names != NULL ? memchr(names + 1, ':', len - (size_t) (names + 1 - line)) : NULL;
    const char *cut;

    if (path == NULL ||
        !has_controller(names + 1, (size_t) (path - names - 1), r->way->controller) ||
        !str_copy_n(r->frozen, sizeof(r->frozen), path + 1, len - (size_t) (path + 1 - line)) ||
        strstr(r->frozen, "/..") != NULL)
        return false;
    cut = strstr(r->frozen, container);
    if (cut == NULL)
        return false;
    cut += strcspn(cut, "/");
    return str_copy_n(r->group, sizeof(r->group), r->frozen, (size_t) (cut - r->frozen));
}

static bool find_of_container(struct reclaiming *r, const struct plan *p)
{
    char text[TEXT_MAX];

    if (!proc_read((pid_t) p->pid, "cgroup", text, sizeof(text)))
        return false;
    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, "\n");

        if (take_line(r, at, len, p->container))
            return true;
        at += len + (at[len] == '\n' ? 1 : 0);
    }
    return false;
}

/* False: not by this way. */
static bool open_group(struct reclaiming *r, const struct plan *p)
{
    char path[GROUP_MAX + 32];
    bool is_named = p->cgroup != NULL ? str_copy(r->group, sizeof(r->group), p->cgroup) &&
                                            str_copy(r->frozen, sizeof(r->frozen), p->cgroup)
                                      : find_of_container(r, p);

    if (!is_named)
        return false;
    (void) snprintf(path, sizeof(path), "%s%s", r->way->root, r->group);
    r->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r->dir >= 0 && faccessat(r->dir, r->way->file, W_OK, AT_EACCESS) == 0)
        return true;
    if (r->dir >= 0)
        (void) close(r->dir); /* nothing was written */
    r->dir = -1;
    return false;
}

/* --- its files --- */

static bool read_text(const struct reclaiming *r, const char *name, char *text, size_t cap)
{
    return file_read_start(r->dir, name, text, cap) > 0;
}

static uint64_t usage_of(const struct reclaiming *r)
{
    char text[64];

    return read_text(r, r->way->usage, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

/* Pages that have to be written before they can be given back. */
static bool is_being_written(const struct reclaiming *r)
{
    char text[STAT_MAX];

    if (!read_text(r, "memory.stat", text, sizeof(text)))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(r->way->dirty); i++) {
        const char *at = strstr(text, r->way->dirty[i]);

        if (at != NULL && strtoull(at + strlen(r->way->dirty[i]), NULL, 10) > 0)
            return true;
    }
    return false;
}

static bool write_text(const struct reclaiming *r, const char *name, const char *text)
{
    AUTO_CLOSE int fd = openat(r->dir, name, O_WRONLY | O_CLOEXEC);

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text);
}

/* A box with a limit may not use swap, or it would have more than its limit. While it stands still it may, as much as its
 * limit is; what is there then stays until it is used. Version 1 counts both together. True: it has to be forbidden again. */
static bool allow_swap(const struct reclaiming *r)
{
    char limit[64];
    char swap[64];

    if (!r->way->has_text || !read_text(r, "memory.max", limit, sizeof(limit)) ||
        !read_text(r, "memory.swap.max", swap, sizeof(swap)) || strcmp(limit, "max\n") == 0)
        return false;
    /* Equal: one of us was killed here. */
    return (strcmp(swap, "0\n") == 0 || strcmp(swap, limit) == 0) &&
           write_text(r, "memory.swap.max", limit);
}

/* --- reclaiming --- */

static void on_slice(int signum)
{
    (void) signum; /* the write ends */
}

static void set_slice(unsigned ms)
{
    const struct itimerval slice = {.it_value = {.tv_usec = (suseconds_t) ms * 1000}};

    (void) setitimer(ITIMER_REAL, &slice, NULL); /* of our own values: cannot fail */
}

/* True: there may be more. */
static bool take_some(const struct reclaiming *r)
{
    char text[32] = "0";
    bool is_cut;

    if (r->way->has_text)
        (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) usage_of(r));
    set_slice(SLICE_MS);
    errno = 0;
    is_cut = !write_text(r, r->way->file, text) && errno == EINTR;
    set_slice(0);
    if (is_cut)
        return true;
    if (!is_being_written(r)) /* the kernel has been asked to write it out */
        return false;
    proc_sleep_ms(PAUSE_MS);
    return true;
}

static void take_all(const struct reclaiming *r)
{
    struct sigaction act = {.sa_handler = on_slice}; /* no SA_RESTART: a write shall end */
    uint64_t until_ms = proc_now_ms() + RECLAIM_MS;
    bool has_swap;

    if (sigaction(SIGALRM, &act, NULL) != 0)
        return;
    has_swap = allow_swap(r);
    while (!start_is_stopped() && proc_now_ms() < until_ms && freezer_is_frozen(r->frozen) &&
           take_some(r))
        ;
    if (has_swap)
        (void) write_text(r, "memory.swap.max", "0"); /* the group may be gone */
}

int reclaim_memory(const struct plan *p, struct buf *answer, struct err *err)
{
    struct reclaiming r = {.dir = -1};
    struct json_out out;
    uint64_t before;

    for (size_t i = 0; r.dir < 0 && i < ARRAY_LEN(ways); i++) {
        r.way = &ways[i];
        (void) open_group(&r, p); /* seen by the descriptor */
    }
    if (r.dir < 0)
        return err_set(err, SP_UNSUPPORTED,
                       "the box has no control group whose memory can be asked for");
    before = usage_of(&r);
    take_all(&r);
    json_out_init(&out);
    json_begin_obj(&out, NULL);
    json_put_u64(&out, "before", before);
    json_put_u64(&out, "after", usage_of(&r));
    json_end(&out);
    json_out_finish(&out, answer);
    (void) close(r.dir); /* only read */
    return SP_OK;
}
