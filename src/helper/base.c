/* base.c - builds the base beside its final place and gives it the name of its digest: the same
 * host gives the same base, and boxes that run on an older one keep it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "helper/base.h"
#include "helper/tree.h"
#include "helper/user_ns.h"

#define NEW_NAME ".new"
#define SKEL_DIR "/etc/skel"

static const struct {
    const char *name;
    mode_t mode;
} dirs[] = {
    {"usr", 0755},       {"proc", 0555}, {"sys", 0555},       {"dev", 0755},     {"run", 0755},
    {"tmp", 01777},      {"var", 0755},  {"var/tmp", 01777},  {"var/lib", 0755}, {"var/log", 0755},
    {"var/cache", 0755}, {"root", 0700}, {"home", 0755},      {"mnt", 0755},     {"media", 0755},
    {"srv", 0755},       {"opt", 0755},  {".sandpool", 0755}, {"etc", 0755},
};

/* Symlinks into /usr on most machines; directories of their own on some. */
static const char *const merged[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

static const char nsswitch[] = "passwd: files\ngroup: files\nshadow: files\ngshadow: files\n"
                               "hosts: files dns\nnetworks: files\nprotocols: files\n"
                               "services: files\nethers: files\nrpc: files\n";

static int make_dir(int at, const char *name, mode_t mode, uint32_t owner, struct err *err)
{
    if (mkdirat(at, name, 0700) != 0 || fchownat(at, name, owner, owner, 0) != 0 ||
        fchmodat(at, name, mode, 0) != 0)
        return err_sys(err, SP_IO, errno, "make '%.100s'", name);
    return SP_OK;
}

static int make_file(int at, const char *name, mode_t mode, const char *text, struct err *err)
{
    AUTO_CLOSE int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

    if (fd < 0 || fchmod(fd, mode) != 0 || write(fd, text, strlen(text)) != (ssize_t) strlen(text))
        return err_sys(err, SP_IO, errno, "make '%.100s'", name);
    return SP_OK;
}

static int make_accounts(int root, const struct plan *p, struct err *err)
{
    const char *shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
    unsigned id = p->user_id;
    char text[1024];
    int rc;

    (void) snprintf(text, sizeof(text),
                    "root:x:0:0:root:/root:%s\n%s:x:%u:%u::/home/%s:%s\n"
                    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
                    shell, p->user, id, id, p->user, shell);
    if ((rc = make_file(root, "etc/passwd", 0644, text, err)) != SP_OK)
        return rc;
    (void) snprintf(text, sizeof(text), "root:x:0:\ntty:x:5:\n%s:x:%u:\nnogroup:x:65534:\n",
                    p->user, id);
    if ((rc = make_file(root, "etc/group", 0644, text, err)) != SP_OK)
        return rc;
    (void) snprintf(text, sizeof(text),
                    "root:*:1:0:99999:7:::\n%s:*:1:0:99999:7:::\n"
                    "nobody:*:1:0:99999:7:::\n",
                    p->user);
    return make_file(root, "etc/shadow", 0600, text, err);
}

static int make_home(int root, const struct plan *p, struct err *err)
{
    /* Where there is but one id, root's, everything is root's. */
    uint32_t owner = p->user_id < user_ns_count() ? p->user_id : 0;
    char path[80];
    AUTO_CLOSE int home = -1;
    int rc;

    (void) snprintf(path, sizeof(path), "home/%s", p->user);
    if ((rc = make_dir(root, path, 0755, owner, err)) != SP_OK ||
        (rc = make_dir(root, "workspace", 0755, owner, err)) != SP_OK)
        return rc;
    home = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (home < 0)
        return err_sys(err, SP_IO, errno, "open '%s'", path);
    return base_copy_dir(SKEL_DIR, home, owner, NULL, err);
}

static int make_merged(int root, struct err *err)
{
    char path[16];
    char target[256];
    struct stat st;
    int rc = SP_OK;

    for (size_t i = 0; rc == SP_OK && i < ARRAY_LEN(merged); i++) {
        ssize_t n;

        (void) snprintf(path, sizeof(path), "/%s", merged[i]);
        if (lstat(path, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            rc = make_dir(root, merged[i], 0755, 0, err);
            continue;
        }
        n = readlink(path, target, sizeof(target) - 1);
        target[n < 0 ? 0 : n] = '\0';
        if (n <= 0 || symlinkat(target, root, merged[i]) != 0)
            rc = err_sys(err, SP_IO, errno, "make '%s'", merged[i]);
    }
    return rc;
}

/* Those that are directories are bound into a box, as /usr is. */
static void put_extra_binds(struct json_out *answer)
{
    char path[16];
    struct stat st;

    json_begin_arr(answer, "extra_binds");
    for (size_t i = 0; i < ARRAY_LEN(merged); i++) {
        (void) snprintf(path, sizeof(path), "/%s", merged[i]);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            json_put_str(answer, NULL, path);
    }
    json_end(answer);
}

static int make_tree(int root, const struct plan *p, struct err *err)
{
    AUTO_CLOSE int etc = -1;
    int rc = SP_OK;

    for (size_t i = 0; rc == SP_OK && i < ARRAY_LEN(dirs); i++)
        rc = make_dir(root, dirs[i].name, dirs[i].mode, 0, err);
    if (rc != SP_OK || (rc = make_merged(root, err)) != SP_OK ||
        (rc = make_accounts(root, p, err)) != SP_OK || (rc = make_home(root, p, err)) != SP_OK ||
        (rc = make_file(root, "etc/nsswitch.conf", 0644, nsswitch, err)) != SP_OK ||
        (rc = make_file(root, "etc/hosts", 0644, "127.0.0.1 localhost\n::1 localhost\n", err)) !=
            SP_OK ||
        (rc = make_file(root, "etc/resolv.conf", 0644, "", err)) != SP_OK)
        return rc;
    etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (etc < 0)
        return err_sys(err, SP_IO, errno, "open 'etc'");
    return base_copy_etc(etc, NULL, err);
}

/* One maker at a time; whatever an earlier one left is in the way and goes. */
static int open_dir(const char *path, int *ret_fd, struct err *err)
{
    int rc = file_make_dir(path, err);

    if (rc != SP_OK)
        return rc;
    *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*ret_fd < 0 || fchmod(*ret_fd, 0700) != 0 || flock(*ret_fd, LOCK_EX) != 0)
        return err_sys(err, SP_IO, errno, "open '%.150s'", path);
    return SP_OK;
}

static int settle(int dir, const char *digest, struct err *err)
{
    if (faccessat(dir, digest, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return SP_OK;
    if (syncfs(dir) != 0) /* it is taken as whole from now on */
        return err_sys(err, SP_IO, errno, "sync the base");
    if (renameat(dir, NEW_NAME, dir, digest) != 0)
        return err_sys(err, SP_IO, errno, "rename the base");
    return SP_OK;
}

/* All that the base depends on: what is copied, what make_tree() looks at, the plan and this program. False: cannot be said, or
 * not be relied on. */
static bool look_at_host(const struct plan *p, char *ret_seen)
{
    static const char *const looked_at[] = {"/proc/self/exe", "/bin/bash"};
    struct base_look look;
    char text[160];
    struct stat st;
    struct err err;

    base_look_init(&look);
    (void) snprintf(text, sizeof(text), "%s %u %u", p->user, (unsigned) p->user_id,
                    (unsigned) user_ns_count());
    base_look_add_text(&look, text);
    for (size_t i = 0; i < ARRAY_LEN(looked_at); i++) {
        if (stat(looked_at[i], &st) == 0)
            base_look_add(&look, looked_at[i], &st);
        else if (i == 0)
            return false;
    }
    look.newest = 0; /* programs are replaced, not changed while they run */
    for (size_t i = 0; i < ARRAY_LEN(merged); i++) {
        (void) snprintf(text, sizeof(text), "/%s", merged[i]);
        if (lstat(text, &st) == 0)
            base_look_add(&look, text, &st);
    }
    return base_copy_dir(SKEL_DIR, -1, 0, &look, &err) == SP_OK &&
           base_copy_etc(-1, &look, &err) == SP_OK && base_look_end(&look, ret_seen);
}

static int make_anew(int dir, const struct plan *p, char *ret_digest, struct err *err)
{
    AUTO_CLOSE int root = -1;
    int rc = make_dir(dir, NEW_NAME, 0755, 0, err);

    if (rc != SP_OK)
        return rc;
    root = openat(dir, NEW_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return err_sys(err, SP_IO, errno, "open the new base");
    rc = make_tree(root, p, err);
    if (rc == SP_OK)
        rc = base_digest(root, true, ret_digest, err);
    return rc == SP_OK ? settle(dir, ret_digest, err) : rc;
}

int base_make(const struct plan *p, struct buf *answer, struct err *err)
{
    char path[PLAN_PATH_MAX + 16];
    char digest[65] = "";
    char seen[65] = "";
    struct tree_count count = {0};
    struct json_out out;
    struct err left;
    AUTO_CLOSE int dir = -1;
    bool is_known;
    int rc;

    (void) snprintf(path, sizeof(path), "%s/" NEW_NAME, p->dir);
    if ((rc = open_dir(p->dir, &dir, err)) != SP_OK ||
        (rc = tree_remove(path, &count, err)) != SP_OK)
        return rc;
    is_known = look_at_host(p, seen);
    if (!is_known || !base_seen_find(dir, seen, digest)) {
        rc = make_anew(dir, p, digest, err);
        if (rc == SP_OK && is_known)
            base_seen_keep(dir, seen, digest);
        if (tree_remove(path, &count, &left) != SP_OK &&
            rc == SP_OK) { /* gone when it was renamed */
            *err = left;
            rc = left.code;
        }
    }
    json_out_init(&out);
    json_begin_obj(&out, NULL);
    put_extra_binds(&out);
    json_put_str(&out, "digest", rc == SP_OK ? digest : "");
    json_end(&out);
    json_out_finish(&out, answer);
    return rc;
}
