/* disk.c - what a box may write. The engine's storage option limits all of it where the storage driver can: whether it can is
 * known when the first container was asked for with it. Elsewhere sandpool-helper puts a file system of that size
 * below the directories a box works in, where it can. A mark in a file says that a container runs whose
 * directories have no limit yet: after a crash of the daemon such a one is removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

enum { UNFINISHED_MAX = 4096 };

enum docker_disk docker_disk_first(const struct docker *d, const struct config_profile *p)
{
    if (p->limits.disk == 0 || p->docker.disk == CONFIG_DISK_NONE)
        return DOCKER_DISK_NONE;
    return d->storage == DOCKER_STORAGE_CANNOT ? docker_disk_second(d, p) : DOCKER_DISK_ENGINE;
}

enum docker_disk docker_disk_second(const struct docker *d, const struct config_profile *p)
{
    if (p->docker.disk == CONFIG_DISK_PLACES)
        return DOCKER_DISK_PLACES; /* or no box: docker_disk_check() */
    return p->docker.disk == CONFIG_DISK_AUTO && docker_disk_check(d, p, NULL) == SP_OK
               ? DOCKER_DISK_PLACES
               : DOCKER_DISK_NONE;
}

bool docker_disk_give_up(struct docker *d, const struct config_profile *p, const struct err *why)
{
    if (p->docker.disk != CONFIG_DISK_AUTO || d->has_limited_places)
        return false;
    d->places_err = *why;
    d->places_err.code = SP_CONFIG;
    log_warn("docker.no_disk_limit", LF_STR("engine", d->address),
             LF_STR("effect", "limits.disk has no effect"), LF_STR("reason", why->msg));
    return true;
}

int docker_disk_check(const struct docker *d, const struct config_profile *p, struct err *err)
{
    if (docker_is_other_kernel(p->runtime))
        return err_set(
            err, SP_CONFIG,
            "`docker.disk: places` cannot be kept by runtime %.60s: it has a view of files "
            "of its own",
            p->runtime);
    if (p->agent == CONFIG_AGENT_IMAGE) /* it would go on in what is covered */
        return err_set(err, SP_CONFIG,
                       "`docker.disk: places` cannot be kept with `agent: image`: what the image "
                       "serves has begun before there is a limit");
    if (str_is_empty(d->disk_dir))
        return err_set(err, SP_CONFIG, "`docker.disk: places`: the state directory cannot be used");
    if (docker_mount_check(d, err) != SP_OK)
        return err_set(err, SP_CONFIG,
                       "`docker.disk: places` needs root, sandpool-helper and an engine on this "
                       "machine, at a Unix socket");
    if (d->places_err.code != SP_OK && p->docker.disk == CONFIG_DISK_AUTO)
        return err_set(err, SP_CONFIG, "directories cannot be limited here: %.160s",
                       d->places_err.msg);
    return SP_OK;
}

const char *docker_disk_limit(struct backend *b, const struct config_profile *p)
{
    const struct docker *d = docker_of(b);

    if (p->limits.disk == 0 || p->docker.disk == CONFIG_DISK_NONE)
        return "none";
    if (d->storage == DOCKER_STORAGE_UNTRIED)
        return NULL;
    if (d->storage == DOCKER_STORAGE_CAN)
        return "all";
    return docker_disk_second(d, p) == DOCKER_DISK_PLACES ? "places" : "none";
}

static void report_places(struct backend_exam *r, const struct docker *d, const char *driver)
{
    const struct config_profile automatic = {.docker.disk = CONFIG_DISK_AUTO};
    struct err err;

    if (docker_disk_check(d, &automatic, &err) == SP_OK)
        backend_report(
            r, BACKEND_FINDING_WARN, "disk limits",
            "storage %.40s cannot limit a container: limits.disk counts for the working "
            "directory, the home, /tmp and /var/tmp, together; what a box writes elsewhere has no "
            "limit. Profiles with `docker.disk: none` have none at all",
            driver);
    else
        backend_report(
            r, BACKEND_FINDING_WARN, "disk limits",
            "storage %.40s cannot limit a container, so limits.disk has no effect, and a box "
            "can fill the engine's disk: %.160s",
            driver, err.msg);
}

void docker_disk_report(struct backend_exam *r, const struct docker *d, const char *driver)
{
    if (d->storage == DOCKER_STORAGE_CAN)
        backend_report(r, BACKEND_FINDING_OK, "disk limits", "by the engine's storage option");
    else if (d->storage == DOCKER_STORAGE_UNTRIED)
        backend_report(r, BACKEND_FINDING_WARN, "disk limits",
                       "whether storage %.40s can limit a container is known after the first box",
                       driver);
    else
        report_places(r, d, driver);
}

/* --- marks --- */

static void put_mark_path(const struct docker *d, uint64_t box, char *dst, size_t cap)
{
    char hex[17];

    str_hex64(hex, box);
    (void) snprintf(dst, cap, "%.400s/%s", d->disk_dir, hex);
}

int docker_disk_mark(const struct docker *d, uint64_t box, struct err *err)
{
    char path[DOCKER_PATH_MAX];
    AUTO_CLOSE int fd = -1;

    put_mark_path(d, box, path, sizeof(path));
    fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "make '%.150s'", path);
}

void docker_disk_unmark(struct docker *d, uint64_t box)
{
    char path[DOCKER_PATH_MAX];

    put_mark_path(d, box, path, sizeof(path));
    (void) unlink(path); /* it may be gone */
    for (size_t i = 0; i < d->unfinished_count; i++) {
        if (d->unfinished[i] == box) {
            d->unfinished_count--;
            d->unfinished[i] = d->unfinished[d->unfinished_count];
            return;
        }
    }
}

bool docker_disk_is_unfinished(const struct docker *d, uint64_t box)
{
    for (size_t i = 0; i < d->unfinished_count; i++)
        if (d->unfinished[i] == box)
            return true;
    return false;
}

void docker_disk_open(struct docker *d, const char *state_dir)
{
    AUTO_FREE char *whole = realpath(state_dir, NULL);
    const struct dirent *e;
    uint64_t box;
    DIR *dir;

    if (whole == NULL)
        return;
    (void) snprintf(d->disk_dir, sizeof(d->disk_dir), "%.380s/docker-disks", whole);
    if (file_make_dir(d->disk_dir, NULL) != SP_OK) {
        d->disk_dir[0] = '\0'; /* a create that needs it says so */
        return;
    }
    dir = opendir(d->disk_dir);
    while (dir != NULL && (e = readdir(dir)) != NULL && d->unfinished_count < UNFINISHED_MAX) {
        if (strlen(e->d_name) != 16 || !str_parse_hex64(e->d_name, &box))
            continue;
        d->unfinished =
            xrealloc(d->unfinished, (d->unfinished_count + 1) * sizeof(d->unfinished[0]));
        d->unfinished[d->unfinished_count] = box;
        d->unfinished_count++;
    }
    if (dir != NULL)
        (void) closedir(dir); /* only read */
}

/* --- the helper's plan --- */

/* Parts of a path; none is empty, "." or "..". */
static bool is_clean(const char *path)
{
    while (*path == '/') {
        size_t len = strcspn(path + 1, "/");

        if (len == 0 || (len <= 2 && strncmp(path + 1, "..", len) == 0))
            return false;
        path += 1 + len;
    }
    return *path == '\0';
}

/* As an image says it, which may be nothing, relative, or ends with a slash. False: it cannot be limited by itself. */
static bool read_work_dir(const char *dir, char ret[static DOCKER_PATH_MAX])
{
    size_t len = strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        len--;
    return len > 1 && strpbrk(dir, ",:\\") == NULL && str_copy_n(ret, DOCKER_PATH_MAX, dir, len) &&
           is_clean(ret);
}

void docker_disk_plan(const struct docker *d, const struct docker_mounting *m, struct json_out *j)
{
    char path[DOCKER_PATH_MAX];

    json_put_str(j, "dir", d->disk_dir);
    json_put_u64(j, "disk", m->disk);
    (void) snprintf(path, sizeof(path), "%.400s/template.%llu", d->disk_dir,
                    (unsigned long long) m->disk);
    json_put_str(j, "disk_template", path);
    json_begin_arr(j, "places");
    if (read_work_dir(m->work_dir, path))
        json_put_str(j, NULL, path);
    json_put_str(j, NULL, "/tmp");
    json_put_str(j, NULL, "/var/tmp");
    json_end(j);
}
