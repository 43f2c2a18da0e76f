/* rootless.c - whether a daemon of an ordinary user can make boxes, and with how many user ids. The
 * user namespaces themselves are made by sandpool-helper, by the same rules (helper/user_ns.c). */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CLONE_SETTING "/proc/sys/kernel/unprivileged_userns_clone" /* Debian's own */
#define APPARMOR_SETTING "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define MAX_SETTING "/proc/sys/user/max_user_namespaces"

/* The first character, '\0' when there is no such setting. */
static char read_setting(const char *path)
{
    char value[2];

    (void) file_read_start(AT_FDCWD, path, value, sizeof(value));
    return value[0];
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
        /* The rule goes by program: sandpool-helper may be allowed what we are not. */
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
 * service is asked, as sandpool-helper asks none. */
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

/* --- control groups --- */

/* The beginning of a file of a control group; false when it is empty or there is none. */
static bool read_group(const char *group, const char *name, char *ret, size_t cap)
{
    char path[OCI_PATH_MAX];

    (void) snprintf(path, sizeof(path), CGROUP_ROOT "%s/%s", group, name);
    return file_read_start(AT_FDCWD, path, ret, cap) > 0;
}

static bool is_ours(const char *group)
{
    static const char *const files[] = {"cgroup.procs", "cgroup.subtree_control"};
    char path[OCI_PATH_MAX];

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        (void) snprintf(path, sizeof(path), CGROUP_ROOT "%s/%s", group, files[i]);
        if (access(path, W_OK) != 0)
            return false;
    }
    return true;
}

/* "0::/..." of version 2; "0::" when it is not known. */
static void read_own_group(char *ret, size_t cap)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[OCI_PATH_MAX];

    str_copy_cut(ret, cap, "0::");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0 && line[4] != '\0')
            str_copy_cut(ret, cap, line);
    }
    if (f != NULL)
        (void) fclose(f); /* only read */
}

/* The highest above us that was given to this user: that of the user's own service manager. Below the group of our
 * service boxes could not stay: a group with limits below it takes no process, not even the next daemon. */
static int find_group(struct oci *o, struct err *err)
{
    char own[OCI_PATH_MAX];
    const char *path = own + 3;
    size_t len = 0;

    if (access(CGROUP_ROOT "/cgroup.controllers", F_OK) != 0)
        return err_set(err, SP_UNSUPPORTED, "they need control groups of version 2");
    read_own_group(own, sizeof(own));
    while (path[len] != '\0') {
        len += 1 + strcspn(path + len + 1, "/");
        if (len > OCI_GROUP_TOP_MAX)
            break;
        (void) snprintf(o->group_top, sizeof(o->group_top), "%.*s", (int) len, path);
        if (is_ours(o->group_top))
            return SP_OK;
    }
    return err_set(err, SP_UNSUPPORTED,
                   "no control group is delegated to this user: start the daemon by its user unit "
                   "(systemctl --user start sandpoold)");
}

static int check_group(const struct oci *o, struct err *err)
{
    static const char *const kinds[] = {"memory", "cpu", "pids"};
    char text[256];
    char path[OCI_PATH_MAX];
    AUTO_CLOSE int fd = -1;

    if (read_group(o->group_top, "cgroup.procs", text, sizeof(text)))
        return err_set(
            err, SP_UNSUPPORTED,
            "the control group that is delegated, %.100s, has processes of its own: start "
            "the daemon by its user unit (systemctl --user start sandpoold)",
            o->group_top);
    (void) read_group(o->group_top, "cgroup.controllers", text, sizeof(text)); /* "": none */
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strstr(text, kinds[i]) == NULL)
            return err_set(
                err, SP_UNSUPPORTED,
                "%s is not delegated to this user: as root `systemctl edit user@.service`, "
                "[Service] Delegate=memory cpu pids",
                kinds[i]);
    (void) snprintf(path, sizeof(path), CGROUP_ROOT "%s/cgroup.subtree_control", o->group_top);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || dprintf(fd, "+memory +cpu +pids") < 0)
        return err_sys(err, SP_UNSUPPORTED, errno, "%.150s", path);
    return SP_OK;
}

static void setup_groups(struct oci *o)
{
    int rc = find_group(o, &o->no_groups);

    if (rc == SP_OK)
        rc = check_group(o, &o->no_groups);
    o->has_cgroups = rc == SP_OK;
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
    setup_groups(o);
    log_warn("oci.rootless", LF_U64("uid", geteuid()), LF_U64("ids", o->id_count),
             LF_STR("limits", o->has_cgroups ? o->group_top : o->no_groups.msg));
    return SP_OK;
}

/* --- the end --- */

struct cleaning {
    struct oci_helper helper;
    struct oci *oci;
};

static void on_cleaned(struct op *op)
{
    struct cleaning *c = container_of(op, struct cleaning, helper.op);
    struct oci *o = c->oci;

    if (op->result != SP_OK)
        log_warn("oci.base_left", LF_STR("reason", op->err.msg));
    oci_helper_fini(&c->helper);
    free(c);
    closing_settle(&o->closing);
}

bool oci_rootless_clean(struct oci *o)
{
    char dir[OCI_PATH_MAX + 8];
    struct cleaning *c;
    struct json_out j;

    /* Also one that was not finished. When the directory is gone this was done; else boxes live on. */
    if (o->id_count == 1 || !o->is_rootless || rmdir(o->boxes_dir) != 0)
        return false;
    str_copy_cut(o->base_dir, sizeof(o->base_dir), "");
    (void) snprintf(dir, sizeof(dir), "%s/base", o->dir);
    c = xcalloc(1, sizeof(*c));
    c->oci = o;
    c->helper.verb = "remove";
    c->helper.pass_fd = -1;
    buf_init(&c->helper.plan, OCI_RECORD_MAX);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "dir", dir);
    json_end(&j);
    json_out_finish(&j, &c->helper.plan);
    oci_helper_start(o, &c->helper, rt_after(rt_now(&o->loop->rt), OCI_REMOVE_NS), on_cleaned);
    return true;
}
