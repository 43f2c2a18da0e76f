/* unpack.c - the head is believed only as far as it limits what follows: the disk is as large as it says, and no larger. */
#include "helper/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "helper/base.h"
#include "helper/bundle_file.h"
#include "helper/disk.h"
#include "helper/disk_digest.h"
#include "helper/layers.h"
#include "helper/start.h"
#include "helper/unpack_files.h"

#define MB (1024ULL * 1024)

static int check_base(const struct plan *p, const struct bundle_head *h, struct err *err)
{
    char own[DISK_DIGEST_MAX] = "";
    int rc = SP_OK;

    if (p->is_any_base)
        return SP_OK;
    if (p->lower != NULL)
        rc = base_digest_of(p->lower, own, err);
    if (rc != SP_OK)
        return rc;
    if (strcmp(own, h->base) != 0 || *own == '\0')
        return err_set(
            err, SP_SPEC_CONFLICT, "the snapshot was made on the base %.71s, the profile has %.71s",
            *h->base != '\0' ? h->base : "(not known)", *own != '\0' ? own : "(not known)");
    return SP_OK;
}

/* --- the disk --- */

static int fill(const struct plan *p, int fd, const struct bundle_head *h, struct sha256 *sum,
                int disk, struct err *err)
{
    uint64_t size = layers_disk_size(h->bytes, h->files);
    struct unpack_from from = {.sum = sum};
    char target[PLAN_PATH_MAX + 16];
    AUTO_CLOSE int top = -1;
    int rc;

    (void) snprintf(target, sizeof(target), "%s/disk", p->stage);
    if ((rc = layers_mount_new(target, disk, &top, err)) != SP_OK ||
        (rc = zstd_reader_new(fd, 4 * size + 256 * MB, &from.in, err)) != SP_OK)
        return rc;
    rc = unpack_files(&from, top, p->id_base, err);
    zstd_reader_free(from.in);
    return rc == SP_OK ? layers_unmount_new(target, &top, err) : rc;
}

static int make(const struct plan *p, int fd, const struct bundle_head *h, struct sha256 *sum,
                struct buf *answer, struct err *err)
{
    uint64_t size = layers_disk_size(h->bytes, h->files);
    AUTO_CLOSE int disk = -1;
    char digest[DISK_DIGEST_MAX];
    struct json_out out;
    int rc;

    if (size > p->max_bytes)
        return err_set(err, SP_BODY_TOO_LARGE,
                       "the snapshot needs a disk of %llu MB, and %llu MB are allowed",
                       (unsigned long long) (size / MB), (unsigned long long) (p->max_bytes / MB));
    /* All of it is set aside before anything is written: of two at once the second sees what the first may still take. */
    if ((rc = layers_check_space(p, size, err)) != SP_OK ||
        (rc = disk_make(p->to, size, false, &disk, err)) != SP_OK ||
        (rc = disk_reserve(disk, size, err)) != SP_OK ||
        (rc = layers_check_space(p, 0, err)) != SP_OK ||
        (rc = fill(p, fd, h, sum, disk, err)) != SP_OK || (rc = disk_trim(disk, err)) != SP_OK ||
        (rc = disk_digest(disk, digest, err)) != SP_OK ||
        (rc = disk_finish(disk, p->to, &out, err)) != SP_OK)
        return rc;
    json_put_str(&out, "digest", digest);
    json_end(&out);
    json_out_finish(&out, answer);
    return SP_OK;
}

int unpack_snapshot(const struct plan *p, int fd, struct buf *answer, struct err *err)
{
    struct bundle_head h = {0};
    struct sha256 sum;
    size_t count = 0;
    int rc;

    sha256_init(&sum);
    if ((rc = bundle_read_head(fd, &sum, &h, err)) != SP_OK ||
        (rc = check_base(p, &h, err)) != SP_OK || (rc = layers_open(p, NULL, &count, err)) != SP_OK)
        return rc;
    rc = make(p, fd, &h, &sum, answer, err);
    if (rc != SP_OK)
        (void) unlink(p->to); /* the error is what matters */
    return rc;
}
