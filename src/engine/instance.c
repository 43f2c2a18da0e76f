/* instance.c - the name that the boxes carry in their labels. It is in the database, and in a file beside
 * it: a daemon that has lost its database finds its boxes again by it, and leaves those of others
 * alone. Runs before the loop. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rand.h"
#include "base/str.h"
#include "engine/internal.h"

static void path_of(const struct engine *e, const char *name, char ret[CONFIG_PATH_MAX + 32])
{
    (void) snprintf(ret, CONFIG_PATH_MAX + 32, "%s/%s", e->config->config->state_dir, name);
}

/* "" when there is no file. */
static int read_name(const struct engine *e, char ret[CONFIG_NAME_MAX + 1], struct err *err)
{
    char path[CONFIG_PATH_MAX + 32];
    char text[CONFIG_NAME_MAX + 2];

    ret[0] = '\0';
    path_of(e, "instance", path);
    if (file_read_start(AT_FDCWD, path, text, sizeof(text)) < 0)
        return errno == ENOENT ? SP_OK
                               : err_sys(err, SP_IO, errno, "'%.100s' cannot be read", path);
    text[strcspn(text, "\n")] = '\0';
    if (!str_is_name(text, CONFIG_NAME_MAX, "_.-"))
        return err_set(err, SP_CONFIG,
                       "'%.100s' holds no name of an instance: write the one there that the labels "
                       "of the boxes have, or remove the file: the database has the name too",
                       path);
    str_copy_cut(ret, CONFIG_NAME_MAX + 1, text);
    return SP_OK;
}

static bool write_synced(const char *path, const char *name)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t len = strlen(name);
    bool is_ok;

    if (fd < 0)
        return false;
    is_ok = write(fd, name, len) == (ssize_t) len && write(fd, "\n", 1) == 1 && fsync(fd) == 0;
    return close(fd) == 0 && is_ok;
}

static bool sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_ok = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        (void) close(fd);
    return is_ok;
}

/* The database has it as well, so that a disk which takes no new file now does not keep us from
 * starting. */
static void write_name(const struct engine *e)
{
    char path[CONFIG_PATH_MAX + 32];
    char fresh[CONFIG_PATH_MAX + 32];

    path_of(e, "instance", path);
    path_of(e, "instance.new", fresh);
    if (!write_synced(fresh, e->instance) || rename(fresh, path) != 0 ||
        !sync_dir(e->config->config->state_dir))
        log_warn("engine.instance_not_written", LF_STR("path", path),
                 LF_STR("reason", strerror(errno)));
}

/* Rows and boxes must be of one instance, so the database wins over the file: with other rows come other
 * boxes. And boxes of another name are never touched: under a new name all of the old would be lost and
 * left running. */
int instance_choose(struct engine *e, size_t box_count, struct err *err)
{
    const char *configured = e->config->config->instance;
    char kept[CONFIG_NAME_MAX + 1];
    uint64_t v;
    int r = read_name(e, kept, err);

    if (r != SP_OK)
        return r;
    if (!str_is_empty(configured) && strcmp(configured, e->instance) != 0) {
        if (!str_is_empty(e->instance) && box_count > 0)
            return err_set(err, SP_CONFIG,
                           "instance is '%s', but the state directory has %zu boxes of instance "
                           "'%s': set it back, or use another state_dir",
                           configured, box_count, e->instance);
        str_copy_cut(e->instance, sizeof(e->instance), configured);
        e->is_instance_new = true;
    } else if (str_is_empty(e->instance)) {
        rand_secure(&v, sizeof(v));
        str_hex64(e->instance, v);
        if (!str_is_empty(kept))
            str_copy_cut(e->instance, sizeof(e->instance), kept);
        e->is_instance_new = true;
    }
    if (!str_is_empty(kept) && strcmp(kept, e->instance) != 0)
        log_warn("engine.instance_changed", LF_STR("instance", e->instance), LF_STR("was", kept));
    if (strcmp(kept, e->instance) != 0)
        write_name(e);
    return SP_OK;
}
