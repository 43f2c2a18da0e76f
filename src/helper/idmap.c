/* idmap.c - mounts whose owners are shifted. The kernel wants the shift as a user namespace, so a
 * child is born for a moment to own one. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/idmap.h"
#include "helper/proc.h"

int idmap_copy(int at, bool is_deep, int *ret_fd, struct err *err)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;

    *ret_fd = open_tree(at, "", is_deep ? flags | AT_RECURSIVE : flags);
    return *ret_fd < 0 ? err_sys(err, SP_IO, errno, "open_tree") : SP_OK;
}

int idmap_restrict(int tree, bool is_ro, bool is_deep, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                              .propagation = MS_PRIVATE};

    if (is_ro)
        attr.attr_set |= MOUNT_ATTR_RDONLY;
    if (mount_setattr(tree, "", AT_EMPTY_PATH | (is_deep ? AT_RECURSIVE : 0u), &attr,
                      sizeof(attr)) != 0)
        return err_sys(err, SP_IO, errno, "mount_setattr");
    return SP_OK;
}

static bool write_map(pid_t pid, const char *name, uint32_t inside, uint32_t outside,
                      uint32_t count)
{
    char path[64];
    char text[64];
    AUTO_CLOSE int fd = -1;
    int len = snprintf(text, sizeof(text), "%u %u %u\n", inside, outside, count);

    (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, (size_t) len) == len;
}

/* Keeps its capabilities: some machines allow ordinary users no user namespaces. */
static bool act_as(uint32_t owner)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];

    if (owner == 0)
        return true;
    if (setresuid((uid_t) -1, owner, (uid_t) -1) != 0 || syscall(SYS_capget, &header, caps) != 0)
        return false;
    caps[0].effective = caps[0].permitted;
    caps[1].effective = caps[1].permitted;
    return syscall(SYS_capset, &header, caps) == 0;
}

/* The child owns the namespace until the parent has a descriptor of it. */
static pid_t fork_user_ns(uint32_t owner)
{
    pid_t self = getpid();
    ssize_t n = 0;
    char made = 0;
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        bool is_made = act_as(owner) && unshare(CLONE_NEWUSER) == 0;

        proc_die_with(self);
        if (!is_made || write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void) pause(); /* until it is killed */
    }
    (void) close(ends[1]); /* else the child's end is never seen */
    while (pid > 0 && (n = read(ends[0], &made, 1)) < 0 && errno == EINTR)
        ; /* a stop signal: handled later */
    if (pid > 0 && n != 1) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        errno = EPERM; /* it had everything else */
        pid = -1;
    }
    (void) close(ends[0]);
    return pid;
}

int idmap_user_ns(const struct idmap *map, uint32_t owner, int *ret_fd, struct err *err)
{
    pid_t pid = fork_user_ns(owner);
    char path[64];
    int rc = SP_OK;

    *ret_fd = -1;
    if (pid < 0)
        return err_sys(err, SP_UNSUPPORTED, errno, "user namespace");
    (void) snprintf(path, sizeof(path), "/proc/%d/ns/user", (int) pid);
    if (!write_map(pid, "uid_map", map->from_uid, map->to_uid, map->count) ||
        !write_map(pid, "gid_map", map->from_gid, map->to_gid, map->count))
        rc = err_sys(err, SP_UNSUPPORTED, errno, "map user ids");
    else if ((*ret_fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        rc = err_sys(err, SP_IO, errno, "open '%s'", path);
    (void) kill(pid, SIGKILL); /* our own child */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return rc;
}

int idmap_apply(int tree, const struct idmap *map, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
    AUTO_CLOSE int ns = -1;
    int rc = idmap_user_ns(map, 0, &ns, err);

    if (rc != SP_OK)
        return rc;
    attr.userns_fd = (unsigned) ns;
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0)
        return SP_OK;
    if (errno == EINVAL || errno == ENOSYS || errno == EPERM || errno == EOPNOTSUPP)
        return err_sys(err, SP_UNSUPPORTED, errno, "mount_setattr(IDMAP)");
    return err_sys(err, SP_IO, errno, "mount_setattr(IDMAP)");
}
