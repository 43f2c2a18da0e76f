/* rootless.c - whether a daemon of an ordinary user can make boxes, and with how many user ids. The
 * user namespaces themselves are made by sandpool-oci, by the same rules (hands/user_ns.c). */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/internal.h"

#define CLONE_SETTING "/proc/sys/kernel/unprivileged_userns_clone" /* Debian's own */
#define APPARMOR_SETTING "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define MAX_SETTING "/proc/sys/user/max_user_namespaces"

/* The first character, '\0' when there is no such setting. */
static char read_setting(const char *path)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    char value;

    return fd >= 0 && read(fd, &value, 1) == 1 ? value : '\0';
}

/* In a child, as it cannot be undone. 0, or the errno of what was refused. */
static int try_user_ns(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid < 0)
        return errno;
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER) != 0 || unshare(CLONE_NEWNS) != 0)
            _exit(errno);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

static int check_user_ns(struct oci *o, struct err *err)
{
    int error = try_user_ns();

    if (error == 0)
        return SP_OK;
    if (read_setting(MAX_SETTING) == '0')
        return err_set(
            err, SP_CONFIG,
            "without root the oci backend needs user namespaces, and there may be none "
            "here: set user.max_user_namespaces (sysctl user.max_user_namespaces=15000), "
            "or run the daemon as root");
    if (read_setting(CLONE_SETTING) == '0')
        return err_set(
            err, SP_CONFIG,
            "without root the oci backend needs user namespaces, which are for root only "
            "here: sysctl kernel.unprivileged_userns_clone=1, or run the daemon as root");
    if (read_setting(APPARMOR_SETTING) == '1') {
        /* The rule goes by program: sandpool-oci may be allowed what we are not. */
        o->is_apparmor_strict = true;
        return SP_OK;
    }
    return err_sys(
        err, SP_CONFIG, error,
        "without root the oci backend needs user namespaces, which are refused here (in a "
        "container its system call filter may be the reason). Run the daemon as root");
}

/* --- user ids --- */

/* As /etc/subuid may use it; the number when it is not in /etc/passwd. Not by getpwuid(): no name
 * service is asked, as sandpool-oci asks none. */
static void find_name(uid_t uid, char *ret, size_t cap)
{
    FILE *f = fopen("/etc/passwd", "re");
    char line[1024];
    bool is_found = false;

    (void) snprintf(ret, cap, "%u", (unsigned) uid);
    while (f != NULL && !is_found && fgets(line, sizeof(line), f) != NULL) {
        char name[64];
        unsigned id;

        is_found = sscanf(line, "%63[^:]:%*[^:]:%u:", name, &id) == 2 && id == uid;
        if (is_found)
            str_copy_cut(ret, cap, name);
    }
    if (f != NULL)
        (void) fclose(f); /* only read */
}

/* One id of the range is the user's own. */
static bool has_range(const char *path, const char *name, uid_t uid)
{
    FILE *f = fopen(path, "re");
    char number[16];
    char line[256];
    bool is_found = false;

    (void) snprintf(number, sizeof(number), "%u", (unsigned) uid);
    while (f != NULL && !is_found && fgets(line, sizeof(line), f) != NULL) {
        char who[64];
        unsigned from;
        unsigned count;

        is_found = sscanf(line, "%63[^:]:%u:%u", who, &from, &count) == 3 && from != 0 &&
                   count >= OCI_ID_COUNT - 1 &&
                   (strcmp(who, number) == 0 || strcmp(who, name) == 0);
    }
    if (f != NULL)
        (void) fclose(f); /* only read */
    return is_found;
}

/* SP_OK: 65536 ids; SP_NOT_FOUND: one, and err says what more takes. */
static int find_ids(struct err *err)
{
    bool has_tools =
        access("/usr/bin/newuidmap", X_OK) == 0 && access("/usr/bin/newgidmap", X_OK) == 0;
    uid_t uid = geteuid();
    const char *missing;
    char name[64];
    bool has_uids;
    bool has_gids;

    find_name(uid, name, sizeof(name));
    has_uids = has_range("/etc/subuid", name, uid);
    has_gids = has_range("/etc/subgid", name, uid);
    missing = has_gids   ? "/etc/subuid has"
              : has_uids ? "/etc/subgid has"
                         : "/etc/subuid and /etc/subgid have";
    if (!has_uids || !has_gids)
        return err_set(err, SP_NOT_FOUND,
                       "%s no %d ids for user %.40s (usermod --add-subuids 100000-165535 "
                       "--add-subgids 100000-165535 %.40s)%s",
                       missing, OCI_ID_COUNT, name, name,
                       has_tools ? "" : ", and /usr/bin/newuidmap is missing (package uidmap)");
    if (!has_tools)
        return err_set(err, SP_NOT_FOUND,
                       "/usr/bin/newuidmap and newgidmap are not installed (package uidmap)");
    return SP_OK;
}

int oci_rootless_setup(struct oci *o, struct err *err)
{
    int rc = check_user_ns(o, err);

    if (rc != SP_OK)
        return rc;
    o->is_rootless = true;
    o->id_count = find_ids(&o->one_id) == SP_OK ? OCI_ID_COUNT : 1;
    if (o->id_count > 1 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return err_set(
            err, SP_CONFIG,
            "newuidmap cannot work in a process with no_new_privs: start the daemon "
            "without (systemd: NoNewPrivileges=no), or take its user out of /etc/subuid");
    log_warn("oci.rootless", LF_U64("uid", geteuid()), LF_U64("ids", o->id_count),
             LF_STR("limits", "none"));
    return SP_OK;
}

bool oci_has_own_cgroup(void)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char path[OCI_PATH_MAX];
    char line[OCI_PATH_MAX];
    bool is_ours = false;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        (void) snprintf(path, sizeof(path), "/sys/fs/cgroup%.400s/cgroup.subtree_control",
                        line + 3);
        is_ours = access(path, W_OK) == 0;
    }
    if (f != NULL)
        (void) fclose(f); /* only read */
    return is_ours;
}

/* --- the end --- */

struct cleaning {
    struct oci_hands hands;
    struct oci *oci;
};

static void on_cleaned(struct op *op)
{
    struct cleaning *c = container_of(op, struct cleaning, hands.op);
    struct oci *o = c->oci;

    if (op->result != SP_OK)
        log_warn("oci.base_left", LF_STR("reason", op->err.msg));
    oci_hands_fini(&c->hands);
    free(c);
    oci_settle(o);
}

bool oci_rootless_clean(struct oci *o)
{
    char dir[OCI_PATH_MAX + 8];
    struct cleaning *c;
    struct json_out j;

    if (o->id_count == 1 || !o->is_rootless || str_is_empty(o->base_dir) ||
        rmdir(o->boxes_dir) != 0) /* boxes live on; else the next start makes it */
        return false;
    str_copy_cut(o->base_dir, sizeof(o->base_dir), "");
    (void) snprintf(dir, sizeof(dir), "%s/base", o->dir);
    c = xcalloc(1, sizeof(*c));
    c->oci = o;
    c->hands.verb = "remove";
    c->hands.pass_fd = -1;
    buf_init(&c->hands.plan, OCI_RECORD_MAX);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "dir", dir);
    json_end(&j);
    json_out_finish(&j, &c->hands.plan);
    oci_hands_start(o, &c->hands, rt_after(rt_now(&o->loop->rt), OCI_REMOVE_NS), on_cleaned);
    return true;
}
