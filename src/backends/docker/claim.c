/* claim.c - one daemon for each name on an engine. Boxes are ours by the `instance` in their labels: another
 * daemon of that name, with a state directory of its own, would take ours for left over and destroy
 * them, and we its. So a file that is named after engine and instance is locked as long as the backend
 * is open. That is known on this machine only. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

enum {
    TRIES_MAX = 20, /* the file may be removed by its last holder while it is locked */
};

static bool is_still_there(int fd, const char *path)
{
    struct stat here;
    struct stat there;

    return fstat(fd, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

/* Below zero and errno: EWOULDBLOCK when another process has it, of which `holder` gets the state directory. */
static int lock_file(const char *path, char *holder, size_t cap)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        ssize_t len;

        if (fd < 0)
            return -1;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            int why = errno;

            len = pread(fd, holder, cap - 1, 0);
            holder[len > 0 ? len : 0] = '\0';
            errno = why;
            return -1;
        }
        if (is_still_there(fd, path))
            return TAKE_FD(fd);
    }
    errno = EAGAIN;
    return -1;
}

int docker_claim(struct docker *d, const char *state_dir, struct err *err)
{
    const char *dir = file_boot_dir();
    AUTO_FREE char *whole = realpath(state_dir, NULL);
    const char *own = whole != NULL ? whole : state_dir;
    char holder[DOCKER_PATH_MAX] = "";
    char hex[17];

    if (dir == NULL)
        return SP_OK; /* nobody is noticed; the engine logs that there is no such directory */
    str_hex64(hex, hash_str(d->address) ^ hash_u64(hash_str(d->instance)));
    if (snprintf(d->claim, sizeof(d->claim), "%s/sandpool-docker-%s", dir, hex) >=
        (int) sizeof(d->claim))
        return SP_OK;
    d->claim_fd = lock_file(d->claim, holder, sizeof(holder));
    if (d->claim_fd < 0 && errno == EWOULDBLOCK && strcmp(holder, own) != 0)
        return err_set(err, SP_CONFIG,
                       "another daemon of the instance '%s' uses the engine at %.100s: its state "
                       "directory is '%.200s'; give each of them an `instance` of its own",
                       d->instance, d->address, holder);
    if (d->claim_fd < 0) {
        log_warn("docker.not_claimed", LF_STR("file", d->claim), LF_I64("errno", errno),
                 LF_STR("effect", "another daemon of this instance would not be noticed"));
        return SP_OK;
    }
    if (ftruncate(d->claim_fd, 0) != 0 || file_write_all(d->claim_fd, own, strlen(own)) != 0)
        log_warn("docker.claim_not_signed", LF_STR("file", d->claim));
    return SP_OK;
}

void docker_unclaim(struct docker *d)
{
    if (d->claim_fd < 0)
        return;
    (void) unlink(d->claim); /* first: whoever opens it from now on makes another */
    (void) close(d->claim_fd);
    d->claim_fd = -1;
}
