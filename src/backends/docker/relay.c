/* relay.c - how a box without a network is reached: the socket is bound on the host's loopback and given to a
 * relay (src/helper/relay.h); the agent gets the other end of the relay's channel over a Unix socket in a
 * directory that only this container sees. Once it is taken, or the box given up, the directory is gone.
 *
 * What is left as long as the box is there is a leash: a FIFO beside the directory, which the relay reads.
 * Whoever opens it for writing ends the relay, and the agent ends with its channel: an engine that was
 * killed at the wrong moment forgets a container that runs. The relay's lock on it says that it lives.
 * Its name says which engine's the box is, and whose: at a start, those of boxes that this engine twice
 * did not list are pulled. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/cleanup.h"
#include "base/fdpass.h"
#include "base/mem.h"
#include "base/str.h"
#include "loop/listen.h"

#define SOCKET_NAME "socket"
#define LEASH_END ".leash"

enum {
    MISSES_MAX = 2, /* one surprising list is a question */
};

struct docker_relay {
    char dir[DOCKER_PATH_MAX + 32];
    char leash[DOCKER_PATH_MAX + 64]; /* "": none yet */
    int lock_fd;                      /* of the directory: held as long as it is in use */
    int box_fd;
    int leash_fd;
    int meet_fd; /* owned by the watch */
    int tie_fd;  /* to the helper that starts the relay, and its end of it */
    int relay_fd;
    int channel_fd; /* until both are there: what the agent gets */
    int asked_fd;   /* where it waits for it */
    unsigned port;
    struct fdwatch *watch;
    struct child relay;
    const char *argv[3];
    struct buf plan;
    bool is_given; /* the agent has its channel */
    bool is_reported;
    bool is_freed; /* but the helper has not ended yet */
    void (*on_taken)(void *ctx, int rc, const struct err *err);
    void *ctx;
};

const char *docker_relay_dir(const struct docker_relay *h)
{
    return h->dir;
}

unsigned docker_relay_port(const struct docker_relay *h)
{
    return h->port;
}

static void remove_dir(const char *dir)
{
    char path[DOCKER_PATH_MAX + 64 + sizeof("/" SOCKET_NAME)];

    (void) snprintf(path, sizeof(path), "%s/" SOCKET_NAME, dir);
    (void) unlink(path); /* may never have been made */
    (void) rmdir(dir);   /* likewise */
}

static void drop(int *fd)
{
    if (*fd >= 0)
        (void) close(*fd); /* nothing to do about it here */
    *fd = -1;
}

/* --- the leash --- */

/* What of the name follows the box's id: engines and instances have one directory. */
static void put_leash_end(char *dst, size_t cap, const struct docker *d)
{
    uint64_t hash = hash_str(d->address) ^ hash_u64(hash_str(d->instance));

    (void) snprintf(dst, cap, "-%08x" LEASH_END, (unsigned) (hash & UINT32_MAX));
}

static void put_leash(char *path, size_t cap, const struct docker *d, uint64_t box_id)
{
    char end[32];
    char hex[17];

    str_hex64(hex, box_id);
    put_leash_end(end, sizeof(end), d);
    (void) snprintf(path, cap, "%s/%s%s", d->dir, hex, end);
}

/* The relay sees it, however short. None reads it: it has ended by itself. */
static void pull_leash(const char *path)
{
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);

    drop(&fd);
    (void) unlink(path); /* boxes that are reached otherwise have none */
}

/* One of this name is that of an earlier try, whose container may run and be taken for the box: it is
 * not pulled. */
static int make_leash(const struct docker *d, struct docker_relay *h, uint64_t box_id,
                      struct err *err)
{
    put_leash(h->leash, sizeof(h->leash), d, box_id);
    (void) unlink(h->leash); /* most often there is none */
    if (mkfifo(h->leash, 0600) == 0)
        h->leash_fd = open(h->leash, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (h->leash_fd < 0 || flock(h->leash_fd, LOCK_SH | LOCK_NB) != 0)
        return err_sys(err, SP_IO, errno, "'%.160s'", h->leash);
    return SP_OK;
}

void docker_relay_end(struct docker *d, uint64_t box_id)
{
    char path[DOCKER_PATH_MAX + 64];

    put_leash(path, sizeof(path), d, box_id);
    if (!str_is_empty(d->dir))
        pull_leash(path);
}

static void release(struct docker_relay *h)
{
    child_fini(&h->relay);
    drop(&h->relay_fd);
    buf_fini(&h->plan);
    free(h);
}

void docker_relay_free(struct docker_relay *h)
{
    if (h == NULL)
        return;
    fdwatch_free(h->watch);
    drop(&h->box_fd);
    drop(&h->leash_fd);
    drop(&h->tie_fd);
    drop(&h->channel_fd);
    drop(&h->asked_fd);
    if (!h->is_given && !str_is_empty(h->leash))
        pull_leash(h->leash);
    remove_dir(h->dir);
    drop(&h->lock_fd);
    h->is_freed = true;
    if (op_is_active(&h->relay.op))
        op_cancel(&h->relay.op); /* on_relay() releases it */
    else
        release(h);
}

/* Another backend of this daemon sweeps the same place when it is opened. -1: it is in use. */
static int lock_dir(const char *dir)
{
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? TAKE_FD(fd) : -1;
}

/* --- channel and agent: the one that comes second ends it --- */

/* The callback may free it. */
static void report(struct docker_relay *h, int rc, const struct err *err)
{
    bool was_reported = h->is_reported;

    h->is_reported = true;
    if (!was_reported)
        h->on_taken(h->ctx, rc, err);
}

static void give(struct docker_relay *h)
{
    struct err err = {0};
    int rc = SP_OK;

    if (h->channel_fd < 0 || h->asked_fd < 0)
        return;
    h->is_given = fdpass_send(h->asked_fd, h->channel_fd);
    if (!h->is_given)
        rc = err_sys(&err, SP_IO, errno, "hand the channel to the agent");
    (void) close(TAKE_FD(h->channel_fd)); /* the agent's is the only one now */
    (void) close(TAKE_FD(h->asked_fd));
    report(h, rc, &err);
}

static void on_asked(void *ctx)
{
    struct docker_relay *h = ctx;
    struct err err;

    h->asked_fd = accept4(h->meet_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (h->asked_fd < 0)
        report(h, err_sys(&err, SP_IO, errno, "the agent asked for its channel"), &err);
    else
        give(h);
}

static void on_relay(struct op *op)
{
    struct docker_relay *h = container_of(op, struct docker_relay, relay.op);
    struct err err = op->err;
    int rc = op->result;

    if (h->is_freed) {
        release(h);
        return;
    }
    if (rc == SP_OK && h->relay.exit_code != 0)
        rc = child_explain(&h->relay, "sandpool-helper relay", &err);
    h->channel_fd = rc == SP_OK ? fdpass_receive(h->tie_fd) : -1;
    if (rc == SP_OK && h->channel_fd < 0)
        rc = err_sys(&err, SP_IO, errno, "the channel of the relay");
    (void) close(TAKE_FD(h->tie_fd));
    if (rc == SP_OK)
        give(h);
    else
        report(h, rc, &err);
}

/* It gets the box's socket and the leash and gives a channel, all through one socket of its own. Its number is one
 * that nobody on this machine has, as far as we know: it shares no limit with others. */
static int start_relay(struct docker *d, struct docker_relay *h, uint64_t box_id, struct err *err)
{
    uint64_t id = geteuid() == 0 ? d->id_base + 1 + box_id % 65534 : 0;
    struct json_out j;
    bool is_sent;
    int ends[2];

    if (str_is_empty(d->helper))
        return err_set(err, SP_CONFIG, "there is no sandpool-helper: set helper.path");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return err_sys(err, SP_IO, errno, "socketpair");
    h->tie_fd = ends[0];
    h->relay_fd = ends[1];
    is_sent = fdpass_send(h->tie_fd, h->box_fd) && fdpass_send(h->tie_fd, h->leash_fd);
    (void) close(TAKE_FD(h->box_fd)); /* the relay's are the only ones now */
    (void) close(TAKE_FD(h->leash_fd));
    if (!is_sent || fcntl(h->tie_fd, F_SETFL, O_NONBLOCK) != 0)
        return err_sys(err, SP_IO, errno, "hand the box's socket to its relay");
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "dir", h->dir);
    json_put_u64(&j, "id", id);
    if (geteuid() == 0)
        docker_put_group(&j, d);
    json_end(&j);
    json_out_finish(&j, &h->plan);
    h->argv[0] = d->helper;
    h->argv[1] = "relay";
    h->relay.argv = h->argv;
    h->relay.input = buf_str(&h->plan);
    h->relay.input_len = h->plan.len;
    h->relay.pass_fd = h->relay_fd;
    child_start(d->loop, &h->relay, &d->closing.inner, RT_NEVER, on_relay); /* our end cancels it */
    return SP_OK;
}

/* On loopback: the box is reached there whatever network it has. */
static int listen_for_box(struct docker_relay *h, struct err *err)
{
    return listen_loopback(&h->box_fd, &h->port, err) == SP_OK ? SP_OK
                                                               : err_wrap(err, "socket of the box");
}

/* The path may be longer than a socket's may be: it is reached through the open directory. Any user
 * of the container may connect; nobody else sees the directory. */
static int listen_for_agent(struct docker *d, struct docker_relay *h, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    AUTO_CLOSE int dir_fd = open(h->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void) snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SOCKET_NAME,
                    dir_fd);
    if (dir_fd < 0 || fd < 0 ||
        bind(fd, (const struct sockaddr *) &address, sizeof(address)) != 0 ||
        fchmodat(dir_fd, SOCKET_NAME, 0666, 0) != 0 || chmod(h->dir, 0711) != 0 ||
        listen(fd, 1) != 0)
        return err_sys(err, SP_IO, errno, "socket in '%.140s'", h->dir);
    h->meet_fd = fd;
    return fdwatch_new(d->loop, TAKE_FD(fd), on_asked, h, &h->watch, err);
}

int docker_relay_new(struct docker *d, uint64_t box_id,
                     void (*on_taken)(void *ctx, int rc, const struct err *err), void *ctx,
                     struct docker_relay **ret, struct err *err)
{
    struct docker_relay *h;
    char hex[17];
    int rc;

    if (str_is_empty(d->dir))
        return err_set(err, SP_CONFIG, "there is no directory for sockets in state_dir");
    h = xcalloc(1, sizeof(*h));
    str_hex64(hex, box_id);
    (void) snprintf(h->dir, sizeof(h->dir), "%s/%s", d->dir, hex);
    h->lock_fd = -1;
    h->box_fd = -1;
    h->leash_fd = -1;
    h->tie_fd = -1;
    h->relay_fd = -1;
    h->channel_fd = -1;
    h->asked_fd = -1;
    buf_init(&h->plan, DOCKER_BODY_MAX);
    h->on_taken = on_taken;
    h->ctx = ctx;
    remove_dir(h->dir);
    if (mkdir(h->dir, 0700) != 0)
        rc = err_sys(err, SP_IO, errno, "directory '%.160s'", h->dir);
    else
        rc = listen_for_box(h, err);
    h->lock_fd = lock_dir(h->dir);
    if (rc == SP_OK)
        rc = make_leash(d, h, box_id, err);
    if (rc == SP_OK)
        rc = listen_for_agent(d, h, err);
    if (rc == SP_OK)
        rc = start_relay(d, h, box_id, err);
    if (rc != SP_OK) {
        docker_relay_free(h);
        return rc;
    }
    *ret = h;
    return SP_OK;
}

/* Of a relay that has ended, whose box nobody removed. False: it lives. */
static bool sweep_leash(const char *path)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
        return fd < 0;
    (void) unlink(path); /* it is there */
    return true;
}

static void sweep_dir(const char *path)
{
    AUTO_CLOSE int fd = lock_dir(path);

    if (fd >= 0)
        remove_dir(path);
}

/* One that lives may be of a box that the engine has forgotten: docker_relay_keep_up() finds out. */
static void remember(struct docker *d, uint64_t id)
{
    if (d->old_count == d->old_cap) {
        size_t cap = MAX_OF(2 * d->old_cap, (size_t) 64);
        struct docker_old *grown = try_realloc(d->old, cap * sizeof(d->old[0]));

        if (grown == NULL)
            return; /* it is left alone */
        d->old = grown;
        d->old_cap = cap;
    }
    d->old[d->old_count++] = (struct docker_old){.id = id};
}

void docker_relay_sweep(struct docker *d)
{
    DIR *dir = str_is_empty(d->dir) ? NULL : opendir(d->dir);
    struct dirent *entry;
    char end[32];
    uint64_t id;

    if (dir == NULL)
        return;
    put_leash_end(end, sizeof(end), d);
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[DOCKER_PATH_MAX + 64];
        char digits[17];
        const char *rest;
        size_t len;

        str_copy_cut(digits, sizeof(digits), entry->d_name);
        if (!str_parse_hex64(digits, &id))
            continue;
        rest = entry->d_name + strlen(digits);
        len = strlen(rest);
        (void) snprintf(path, sizeof(path), "%s/%.40s", d->dir, entry->d_name);
        if (len > strlen(LEASH_END) && strcmp(rest + len - strlen(LEASH_END), LEASH_END) == 0) {
            if (!sweep_leash(path) && strcmp(rest, end) == 0)
                remember(d, id);
        } else if (len == 0) {
            sweep_dir(path);
        }
    }
    (void) closedir(dir);
}

void docker_relay_keep_up(struct docker *d)
{
    size_t kept = 0;

    for (size_t i = 0; i < d->old_count; i++) {
        struct docker_old *o = &d->old[i];

        if (docker_box_find(d, o->id) != NULL)
            continue; /* it ends as others do */
        if (++o->missed < MISSES_MAX) {
            d->old[kept++] = *o;
            continue;
        }
        log_warn("docker.relay_left", LF_HEX("box", o->id),
                 LF_STR("reason", "the engine has no such container any more"));
        docker_relay_end(d, o->id);
    }
    d->old_count = kept;
}
