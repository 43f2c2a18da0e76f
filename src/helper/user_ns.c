/* user_ns.c - user namespaces: the box's, and for an ordinary user one of this process. One id is always to be had;
 * a range takes newuidmap and newgidmap and a line in /etc/subuid and /etc/subgid. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "helper/idmap.h"
#include "helper/proc.h"
#include "helper/user_ns.h"

#define RANGE 65536u
#define MAP_MS 5000
#define NOBODY 65534u /* whom runsc makes its kernel */

static uint32_t entered_count; /* 0: not entered */

bool user_ns_is_entered(void)
{
    return entered_count != 0;
}

uint32_t user_ns_count(void)
{
    return entered_count != 0 ? entered_count : UINT32_MAX;
}

/* The login name, as /etc/subuid may use it; "" when it is not in /etc/passwd. */
static void find_name(uid_t uid, char *ret, size_t cap)
{
    FILE *f = fopen("/etc/passwd", "re");
    char line[1024];

    ret[0] = '\0';
    while (f != NULL && ret[0] == '\0' && fgets(line, sizeof(line), f) != NULL) {
        char name[64];
        unsigned id;

        if (sscanf(line, "%63[^:]:%*[^:]:%u:", name, &id) == 2 && id == uid)
            str_copy_cut(ret, cap, name);
    }
    if (f != NULL)
        (void) fclose(f); /* only read */
}

/* Start of a range with room for all ids but the first; 0: there is none. */
static uint32_t find_range(const char *path, const char *name, uid_t uid)
{
    FILE *f = fopen(path, "re");
    char number[16];
    char line[256];
    uint32_t start = 0;

    (void) snprintf(number, sizeof(number), "%u", (unsigned) uid);
    while (f != NULL && start == 0 && fgets(line, sizeof(line), f) != NULL) {
        char who[64];
        unsigned from;
        unsigned count;

        if (sscanf(line, "%63[^:]:%u:%u", who, &from, &count) == 3 && count >= RANGE - 1 &&
            (strcmp(who, number) == 0 || (name[0] != '\0' && strcmp(who, name) == 0)))
            start = from;
    }
    if (f != NULL)
        (void) fclose(f); /* only read */
    return start;
}

static bool write_self(const char *name, const char *text)
{
    char path[64];
    AUTO_CLOSE int fd = -1;

    (void) snprintf(path, sizeof(path), "/proc/self/%s", name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text);
}

static int enter_single(uid_t uid, gid_t gid, struct err *err)
{
    char uids[32];
    char gids[32];

    (void) snprintf(uids, sizeof(uids), "0 %u 1\n", (unsigned) uid);
    (void) snprintf(gids, sizeof(gids), "0 %u 1\n", (unsigned) gid);
    if (unshare(CLONE_NEWUSER) != 0)
        return err_sys(err, SP_UNSUPPORTED, errno,
                       "user namespaces are not allowed to ordinary users here");
    if (!write_self("setgroups", "deny") || !write_self("uid_map", uids) ||
        !write_self("gid_map", gids))
        return err_sys(err, SP_UNSUPPORTED, errno, "map the user's id");
    entered_count = 1;
    return SP_OK;
}

static bool run_map(const char *program, pid_t pid, unsigned own, uint32_t start)
{
    char pid_text[16];
    char own_text[16];
    char start_text[16];
    char count_text[16];
    const char *const argv[] = {program, pid_text,   "0",        own_text, "1",
                                "1",     start_text, count_text, NULL};
    struct proc_tail tail = {0};
    struct err err;
    int status = -1;

    (void) snprintf(pid_text, sizeof(pid_text), "%d", (int) pid);
    (void) snprintf(own_text, sizeof(own_text), "%u", own);
    (void) snprintf(start_text, sizeof(start_text), "%u", start);
    (void) snprintf(count_text, sizeof(count_text), "%u", RANGE - 1);
    return proc_run(argv, MAP_MS, &tail, &status, &err) == SP_OK && status == 0;
}

/* Goes into a new user namespace. The maps are written from outside, by a child that stays there until we
 * have gone in. */
static int enter_mapped(bool (*map)(pid_t pid, const void *ctx), const void *ctx, struct err *err)
{
    pid_t self = getpid();
    int status = -1;
    int ends[2];
    char go = 0;
    pid_t pid;
    bool is_in;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(err, SP_IO, errno, "pipe");
    pid = fork();
    if (pid == 0) {
        proc_die_with(self);
        (void) close(ends[1]); /* else its end is never seen */
        _exit(read(ends[0], &go, 1) == 1 && map(self, ctx) ? 0 : 1);
    }
    is_in = pid > 0 && unshare(CLONE_NEWUSER) == 0;
    if (is_in && write(ends[1], "x", 1) != 1)
        is_in = false;
    (void) close(ends[0]); /* pipes of our own */
    (void) close(ends[1]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!is_in)
        return err_set(err, SP_UNSUPPORTED, "user namespaces are not allowed here");
    if (status != 0 || setgid(0) != 0 || setuid(0) != 0)
        return err_set(err, SP_UNSUPPORTED, "the ids of a user namespace could not be set");
    return SP_OK;
}

struct range {
    uid_t uid;
    gid_t gid;
    uint32_t uids;
    uint32_t gids;
};

static bool map_range(pid_t pid, const void *ctx)
{
    const struct range *r = ctx;

    return run_map("/usr/bin/newuidmap", pid, r->uid, r->uids) &&
           run_map("/usr/bin/newgidmap", pid, r->gid, r->gids);
}

static int enter_range(const struct range *r, struct err *err)
{
    int rc = enter_mapped(map_range, r, err);

    if (rc == SP_OK)
        entered_count = RANGE;
    return rc != SP_OK ? err_wrap(err, "newuidmap and newgidmap") : rc;
}

/* Root, its system users and the box's ids are who they are; nobody is the last of the box's. */
static bool map_nobody(pid_t pid, const void *ctx)
{
    static const char *const names[] = {"uid_map", "gid_map"};
    const struct plan *p = ctx;
    char text[128];
    char path[64];
    bool is_done = true;

    (void) snprintf(text, sizeof(text), "0 0 %u\n%u %u 1\n%u %u %u\n", NOBODY, NOBODY,
                    p->id_base + p->id_count - 1, p->id_base, p->id_base, p->id_count - 1);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_CLOSE int fd = -1;

        (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, names[i]);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        is_done = is_done && fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text);
    }
    return is_done;
}

int user_ns_own_nobody(const struct plan *p, struct err *err)
{
    return enter_mapped(map_nobody, p, err);
}

int user_ns_place(const struct plan *p, struct err *err)
{
    struct idmap map = {.from_uid = 0,
                        .to_uid = p->id_base,
                        .from_gid = 0,
                        .to_gid = p->id_base,
                        .count = p->id_count};
    AUTO_CLOSE int file = -1;
    AUTO_CLOSE int ns = -1;
    char path[32];
    int rc;

    if (p->user_ns == NULL)
        return SP_OK;
    if ((rc = idmap_user_ns(&map, p->id_base, &ns, err)) != SP_OK)
        return rc;
    file = open(p->user_ns, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", ns);
    if (file < 0 || mount(path, p->user_ns, NULL, MS_BIND, NULL) != 0)
        return err_sys(err, SP_IO, errno, "keep the box's user namespace at '%.100s'", p->user_ns);
    return SP_OK;
}

int user_ns_enter(uint32_t want, struct err *err)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    char name[64];
    uint32_t uids;
    uint32_t gids;

    if (uid == 0)
        return SP_OK;
    find_name(uid, name, sizeof(name));
    uids = find_range("/etc/subuid", name, uid);
    gids = find_range("/etc/subgid", name, uid);
    if (want != 1 && uids != 0 && gids != 0 && access("/usr/bin/newuidmap", X_OK) == 0 &&
        access("/usr/bin/newgidmap", X_OK) == 0)
        return enter_range(&(struct range){uid, gid, uids, gids}, err);
    if (want > 1)
        return err_set(err, SP_UNSUPPORTED,
                       "boxes with %u user ids need root, or for user '%s' (%u): newuidmap and "
                       "newgidmap, and %u ids in both /etc/subuid and /etc/subgid",
                       want, name, (unsigned) uid, RANGE);
    return enter_single(uid, gid, err);
}
