/* image_files.c - the cache of unpacked images: looking, locking, putting a new one in its place.
 * An image appears by a rename, when it is complete, and is never changed afterwards. */
#include "backends/oci/image_files.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/oci/image_user.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"

enum {
    JSON_MAX = 4 * 1024 * 1024, /* an image's configuration with its whole history */
    REMOVE_FDS = 16,            /* how deep a removal goes without closing directories */
};

#define ARCHIVE "docker-archive:"
#define LAYOUT "oci:"
#define REGISTRY "docker://"

static bool has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool has_suffix(const char *s, const char *suffix)
{
    size_t len = strlen(s);
    size_t n = strlen(suffix);

    return len > n && strcmp(s + len - n, suffix) == 0;
}

int image_files_init(struct image_files *f, const char *image, struct err *err)
{
    const char *prefix = "";
    const char *path;
    int len;

    f->lock_fd = -1;
    if (image[0] == '/')
        prefix = has_suffix(image, ".tar") ? ARCHIVE : LAYOUT;
    len = snprintf(f->reference, sizeof(f->reference), "%s%s", prefix, image);
    if (len < 0 || (size_t) len >= sizeof(f->reference))
        return err_set(err, SP_INVALID_FIELD, "the reference is too long");
    if (has_prefix(f->reference, REGISTRY))
        return SP_OK;
    if (!has_prefix(f->reference, ARCHIVE) && !has_prefix(f->reference, LAYOUT))
        return err_set(err, SP_INVALID_FIELD,
                       "not a path, nor " ARCHIVE "/path.tar, " LAYOUT "/path or " REGISTRY "...");
    path = strchr(f->reference, ':') + 1;
    if (path[0] != '/')
        return err_set(err, SP_INVALID_FIELD, "its path is not absolute");
    len = snprintf(f->source, sizeof(f->source), "%.*s%s", (int) strcspn(path, ":"), path,
                   has_prefix(f->reference, LAYOUT) ? "/index.json" : "");
    if (len < 0 || (size_t) len >= sizeof(f->source))
        return err_set(err, SP_INVALID_FIELD, "the reference is too long");
    return SP_OK;
}

void image_env_free(char **env)
{
    for (char **item = env; item != NULL && *item != NULL; item++)
        free(*item);
    free(env);
}

void image_files_fini(struct image_files *f)
{
    image_env_free(f->env);
    f->env = NULL;
    if (f->lock_fd >= 0)
        (void) close(TAKE_FD(f->lock_fd)); /* nothing to do about it here */
}

/* --- small files --- */

/* <dir>/<key><suffix>: the key stands for the reference and the user. */
static void key_path(const struct image_files *f, const char *suffix, char *dst, size_t cap)
{
    unsigned char digest[32];
    char hex[65];
    char id[16];
    struct sha256 hash;

    (void) snprintf(id, sizeof(id), "%u", f->user_id); /* fits by its size */
    sha256_init(&hash);
    sha256_add(&hash, f->reference, strlen(f->reference) + 1);
    sha256_add(&hash, f->user, strlen(f->user) + 1);
    sha256_add(&hash, id, strlen(id));
    sha256_end(&hash, digest);
    str_hex(hex, digest, sizeof(digest));
    (void) snprintf(dst, cap, "%s/%.16s%s", f->dir, hex, suffix); /* room by their sizes */
}

static int read_text(const char *path, size_t max, struct buf *out, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    int sys;

    buf_init(out, max);
    if (fd < 0)
        return err_sys(err, SP_IO, errno, "'%.150s'", path);
    sys = file_read_rest(fd, out);
    if (sys == EFBIG)
        return err_set(err, SP_TOO_BIG, "'%.150s' is too large", path);
    return sys == 0 ? SP_OK : err_sys(err, SP_IO, sys, "'%.150s'", path);
}

static int write_text(const char *path, const struct buf *text, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0 || buf_failed(text) || write(fd, text->data, text->len) != (ssize_t) text->len)
        return err_sys(err, SP_IO, errno, "'%.150s'", path);
    return SP_OK;
}

static struct json_doc *read_json(const char *path, struct err *err)
{
    struct buf text;
    struct json_doc *doc = NULL;

    if (read_text(path, JSON_MAX, &text, err) == SP_OK)
        doc = json_parse(buf_str(&text), text.len, JSON_MAX, err);
    buf_fini(&text);
    return doc;
}

/* --- what is there --- */

static int take_stamp(const struct image_files *f, char *dst, size_t cap, struct err *err)
{
    struct stat st;

    str_copy_cut(dst, cap, "registry");
    if (str_is_empty(f->source))
        return SP_OK;
    if (stat(f->source, &st) != 0)
        return err_sys(err, SP_BACKEND_FAILED, errno, "'%.150s'", f->source);
    (void) snprintf(dst, cap, "%llx %llx %llx %llx.%lx %llx.%lx", (unsigned long long) st.st_dev,
                    (unsigned long long) st.st_ino, (unsigned long long) st.st_size,
                    (unsigned long long) st.st_mtim.tv_sec, (unsigned long) st.st_mtim.tv_nsec,
                    (unsigned long long) st.st_ctim.tv_sec, (unsigned long) st.st_ctim.tv_nsec);
    return SP_OK;
}

static char **copy_env(const struct json *list)
{
    size_t count = json_len(list);
    char **env = xcalloc(count + 1, sizeof(*env));
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        const char *item = json_str(json_at(list, i));
        if (item != NULL)
            env[kept++] = xstrdup(item);
    }
    return env;
}

/* Fills the results from <dir>/<name>; false when there is no such image. */
static bool load_image(struct image_files *f, const char *name)
{
    char path[640];
    struct err err;
    const char *workdir;
    struct json_doc *doc;
    int len;

    (void) snprintf(path, sizeof(path), "%s/%s/image.json", f->dir, name); /* as the next one */
    len = snprintf(f->rootfs, sizeof(f->rootfs), "%s/%s/rootfs", f->dir, name);
    if (len < 0 || (size_t) len >= sizeof(f->rootfs))
        return false;
    doc = read_json(path, &err);
    if (doc == NULL || access(f->rootfs, F_OK) != 0) {
        doc = json_doc_free(doc);
        return false;
    }
    image_env_free(f->env);
    f->env = copy_env(json_get(json_root(doc), "env"));
    workdir = json_str(json_get(json_root(doc), "workdir"));
    str_copy_cut(f->workdir, sizeof(f->workdir), workdir != NULL ? workdir : "");
    doc = json_doc_free(doc);
    f->is_found = true;
    return true;
}

/* What the reference stood for last time, if its source is still the same. */
static bool lookup(struct image_files *f)
{
    char path[512];
    struct buf text;
    struct err err;
    const char *name = NULL;
    size_t len = strlen(f->stamp);
    bool is_found = false;

    key_path(f, ".ref", path, sizeof(path));
    if (read_text(path, 1024, &text, &err) == SP_OK && has_prefix(buf_str(&text), f->stamp) &&
        text.data[len] == '\n')
        name = text.data + len + 1;
    if (name != NULL && !str_is_empty(name) && strchr(name, '/') == NULL)
        is_found = load_image(f, name);
    buf_fini(&text);
    return is_found;
}

static int remember(const struct image_files *f, const char *name, struct err *err)
{
    char path[512];
    char fresh[512];
    struct buf text;
    int rc;

    key_path(f, ".ref", path, sizeof(path));
    (void) snprintf(fresh, sizeof(fresh), "%s/ref", f->tmp); /* room by their sizes */
    buf_init(&text, 1024);
    buf_printf(&text, "%s\n%s", f->stamp, name);
    rc = write_text(fresh, &text, err);
    buf_fini(&text);
    if (rc == SP_OK && rename(fresh, path) != 0)
        rc = err_sys(err, SP_IO, errno, "'%.150s'", path);
    return rc;
}

/* --- the steps --- */

static int remove_entry(const char *path, const struct stat *st UNUSED, int kind UNUSED,
                        struct FTW *at UNUSED)
{
    (void) remove(path); /* the next one who makes this image tries again */
    return 0;
}

static void remove_tree(const char *path)
{
    (void) nftw(path, remove_entry, REMOVE_FDS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static int take_lock(struct image_files *f, struct err *err)
{
    char path[512];
    AUTO_CLOSE int fd = -1;

    key_path(f, ".lock", path, sizeof(path));
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(err, SP_IO, errno, "'%.150s'", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        f->lock_fd = TAKE_FD(fd);
    else if (errno == EWOULDBLOCK)
        f->is_busy = true;
    else
        return err_sys(err, SP_IO, errno, "'%.150s'", path);
    return SP_OK;
}

int image_files_prepare(struct image_files *f, struct err *err)
{
    char parent[sizeof(f->dir)];
    char bundle[sizeof(f->tmp) + 16];
    int rc;

    f->is_busy = false;
    str_copy_cut(parent, sizeof(parent), f->dir);
    *strrchr(parent, '/') = '\0';
    rc = file_make_dir(parent, err);
    if (rc == SP_OK)
        rc = file_make_dir(f->dir, err);
    if (rc == SP_OK)
        rc = take_stamp(f, f->stamp, sizeof(f->stamp), err);
    if (rc != SP_OK || lookup(f))
        return rc;
    rc = take_lock(f, err);
    /* Whoever held it may have finished since we looked. */
    if (rc != SP_OK || f->is_busy || lookup(f))
        return rc;
    key_path(f, ".tmp", f->tmp, sizeof(f->tmp));
    remove_tree(f->tmp);
    rc = file_make_dir(f->tmp, err);
    (void) snprintf(bundle, sizeof(bundle), "%s/bundle", f->tmp); /* room by their sizes */
    return rc != SP_OK ? rc : file_make_dir(bundle, err);
}

static void image_name(const struct image_files *f, char *dst, size_t cap)
{
    (void) snprintf(dst, cap, "%s.%u.%s", f->digest, f->user_id, f->user); /* room by their sizes */
}

int image_files_known(struct image_files *f, struct err *err)
{
    char name[160];

    image_name(f, name, sizeof(name));
    return load_image(f, name) ? remember(f, name, err) : SP_OK;
}

/* The blob that `descriptor` names, parsed. */
static struct json_doc *read_blob(const struct image_files *f, const struct json *descriptor,
                                  struct err *err)
{
    const char *digest = json_str(json_get(descriptor, "digest"));
    char path[640];

    if (digest == NULL || !has_prefix(digest, "sha256:") ||
        !str_is_name(digest + strlen("sha256:"), 64, "")) {
        (void) err_set(err, SP_BACKEND_FAILED, "its layout is malformed");
        return NULL;
    }
    (void) snprintf(path, sizeof(path), "%s/layout/blobs/sha256/%s", f->tmp,
                    digest + strlen("sha256:")); /* room by their sizes */
    return read_json(path, err);
}

/* The part of an image's configuration that a box needs. */
static int write_config(const struct json *config, const char *path, struct err *err)
{
    const struct json *env = json_get(config, "Env");
    const char *workdir = json_str(json_get(config, "WorkingDir"));
    struct json_out o;
    struct buf text;
    int rc;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "env");
    for (size_t i = 0; i < json_len(env); i++) {
        const char *item = json_str(json_at(env, i));
        if (item != NULL)
            json_put_str(&o, NULL, item);
    }
    json_end(&o);
    json_put_str(&o, "workdir", workdir != NULL ? workdir : "");
    json_end(&o);
    buf_init(&text, JSON_MAX);
    json_out_finish(&o, &text);
    rc = write_text(path, &text, err);
    buf_fini(&text);
    return rc;
}

static int extract_config(const struct image_files *f, struct err *err)
{
    char path[640];
    struct json_doc *index;
    struct json_doc *manifest = NULL;
    struct json_doc *config = NULL;
    int rc;

    (void) snprintf(path, sizeof(path), "%s/layout/index.json", f->tmp); /* room by their sizes */
    index = read_json(path, err);
    if (index != NULL)
        manifest = read_blob(f, json_at(json_get(json_root(index), "manifests"), 0), err);
    if (manifest != NULL)
        config = read_blob(f, json_get(json_root(manifest), "config"), err);
    (void) snprintf(path, sizeof(path), "%s/bundle/image.json", f->tmp); /* room by their sizes */
    if (config != NULL)
        rc = write_config(json_get(json_root(config), "config"), path, err);
    else
        rc = err_wrap(err, "its configuration");
    config = json_doc_free(config);
    manifest = json_doc_free(manifest);
    index = json_doc_free(index);
    return rc;
}

/* Complete on the disk before it gets its name, for the day the power fails. */
static int publish(const struct image_files *f, const char *name, struct err *err)
{
    char from[512];
    char to[640];
    AUTO_CLOSE int fd = -1;

    (void) snprintf(from, sizeof(from), "%s/bundle", f->tmp); /* room by their sizes */
    (void) snprintf(to, sizeof(to), "%s/%s", f->dir, name);
    fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || syncfs(fd) != 0)
        return err_sys(err, SP_IO, errno, "'%.150s'", from);
    if (rename(from, to) != 0 && errno != ENOTEMPTY && errno != EEXIST)
        return err_sys(err, SP_IO, errno, "'%.150s'", to);
    return SP_OK; /* or the same image came by another reference a moment ago */
}

int image_files_settle(struct image_files *f, struct err *err)
{
    char path[640];
    char name[160];
    char now[sizeof(f->stamp)];
    int rc = take_stamp(f, now, sizeof(now), err);

    if (rc == SP_OK && strcmp(now, f->stamp) != 0)
        rc = err_set(err, SP_BACKEND_FAILED, "it changed while it was read");
    if (rc == SP_OK)
        rc = extract_config(f, err);
    (void) snprintf(path, sizeof(path), "%s/bundle/rootfs", f->tmp); /* room by their sizes */
    if (rc == SP_OK)
        rc = image_user_add(path, f->user, f->user_id, err);
    if (rc != SP_OK)
        return rc;
    image_name(f, name, sizeof(name));
    rc = publish(f, name, err);
    if (rc == SP_OK && !load_image(f, name))
        rc = err_set(err, SP_IO, "it is gone from '%.150s'", f->dir);
    if (rc == SP_OK)
        rc = remember(f, name, err);
    return rc;
}

void image_files_clean(struct image_files *f)
{
    if (!str_is_empty(f->tmp))
        remove_tree(f->tmp);
}
