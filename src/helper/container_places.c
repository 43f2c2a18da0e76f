/* container_places.c - the disk of a container has no file with a name and is mounted nowhere as itself. Its loop device says whose it
 * is; the container's list of mounts says which directory of it is seen where. */
#include "helper/container_places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/container_disk.h"

#define OVERLAY_MARK " - overlay " CONTAINER_OVERLAY " "

void container_disk_name(const struct plan *p, char ret[LO_NAME_SIZE])
{
    (void) snprintf(ret, LO_NAME_SIZE, "sandpool-%.48s", p->container);
}

/* --- its disk --- */

static bool is_named(const char *device, const char *name)
{
    AUTO_CLOSE int fd = open(device, O_RDONLY | O_CLOEXEC);
    struct loop_info64 info;

    return fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 &&
           strncmp((const char *) info.lo_file_name, name, LO_NAME_SIZE) == 0;
}

static bool find_device(const char *name, char *ret, size_t cap)
{
    DIR *dir = opendir("/sys/block");
    const struct dirent *e;
    bool is_found = false;

    while (!is_found && dir != NULL && (e = readdir(dir)) != NULL) {
        char state[300];

        (void) snprintf(state, sizeof(state), "/sys/block/%s/loop/backing_file", e->d_name);
        if (strncmp(e->d_name, "loop", 4) != 0 || access(state, F_OK) != 0)
            continue; /* no loop device, or one without a file */
        (void) snprintf(ret, cap, "/dev/%.20s", e->d_name);
        is_found = is_named(ret, name);
    }
    if (dir != NULL)
        (void) closedir(dir); /* only read */
    return is_found;
}

static int open_disk(const struct plan *p, int *ret_fd, struct err *err)
{
    char name[LO_NAME_SIZE];
    char device[32];

    container_disk_name(p, name);
    if (!find_device(name, device, sizeof(device)))
        return err_set(err, SP_UNSUPPORTED,
                       "the disk of the box is not found: it was made by an earlier version");
    return container_disk_mount(device, ret_fd, err);
}

/* --- where it is seen --- */

/* A backslash and "040" are a space. */
static bool unescape(const char *from, size_t len, char *ret, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++, n++) {
        if (n + 1 >= cap)
            return false;
        ret[n] = from[i];
        if (from[i] == '\\' && i + 3 < len) {
            ret[n] =
                (char) ((from[i + 1] - '0') * 64 + (from[i + 2] - '0') * 8 + from[i + 3] - '0');
            i += 3;
        }
    }
    ret[n] = '\0';
    return n > 0;
}

/* Field 5 is where it is mounted. */
static bool read_target(const char *line, char *ret, size_t cap)
{
    for (unsigned i = 0; i < 4; i++) {
        line = strchr(line, ' ');
        if (line == NULL)
            return false;
        line++;
    }
    return *line == '/' && unescape(line + 1, strcspn(line, " ") - 1, ret, cap);
}

/* "upperdir=/place/u0,": the last part is that on the disk. */
static bool read_upper(const char *options, char *ret, size_t cap)
{
    const char *at = strstr(options, "upperdir=");
    size_t len = at != NULL ? strcspn(at, ",\n") : 0;
    size_t n = 0;

    while (n < len && at[len - n - 1] != '/')
        n++;
    if (n < 2 || n >= cap || n == len || at[len - n] != 'u')
        return false;
    (void) snprintf(ret, cap, "%.*s", (int) n, at + len - n);
    return strspn(ret + 1, "0123456789") == n - 1;
}

static int open_place(const char *line, const char *options, int disk, struct container_places *ret,
                      struct err *err)
{
    struct container_place *place = &ret->of[ret->count];
    char name[16];

    if (ret->count == ARRAY_LEN(ret->of))
        return err_set(err, SP_UNSUPPORTED, "the box has too many places");
    if (!read_target(line, place->path, sizeof(place->path)) ||
        !read_upper(options, name, sizeof(name)))
        return err_set(err, SP_UNSUPPORTED, "the mounts of the box cannot be read");
    place->upper = openat(disk, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place->upper < 0)
        return err_sys(err, SP_IO, errno, "open '%s' of the box's disk", name);
    ret->count++;
    return SP_OK;
}

static int read_mounts(const struct plan *p, int disk, struct container_places *ret,
                       struct err *err)
{
    char path[64];
    char *line = NULL;
    size_t cap = 0;
    int rc = SP_OK;
    FILE *f;

    (void) snprintf(path, sizeof(path), "/proc/%d/mountinfo", p->pid);
    f = fopen(path, "re");
    if (f == NULL)
        return err_sys(err, ERR_BOX_DEAD, errno, "the box does not run");
    while (rc == SP_OK && getline(&line, &cap, f) > 0) {
        const char *mark = strstr(line, OVERLAY_MARK);

        if (mark != NULL)
            rc = open_place(line, mark + strlen(OVERLAY_MARK), disk, ret, err);
    }
    free(line);
    (void) fclose(f); /* only read */
    if (rc == SP_OK && ret->count == 0)
        rc = err_set(err, SP_UNSUPPORTED, "the mounts of the box show no place");
    return rc;
}

int container_places_open(const struct plan *p, struct container_places *ret, struct err *err)
{
    AUTO_CLOSE int disk = -1;
    int rc = open_disk(p, &disk, err);

    ret->count = 0;
    if (rc == SP_OK)
        rc = read_mounts(p, disk, ret, err);
    if (rc != SP_OK)
        container_places_close(ret);
    return rc;
}

void container_places_close(struct container_places *ps)
{
    while (ps->count > 0)
        (void) close(ps->of[--ps->count].upper); /* a directory */
}
