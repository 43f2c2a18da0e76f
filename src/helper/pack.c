/* pack.c - the head says how much is in it, so that whoever unpacks it can make a disk that is large enough, and no larger. */
#include "helper/pack.h"

#include <errno.h>

#include "base/bundle.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/tar_write.h"
#include "helper/base.h"
#include "helper/disk_digest.h"
#include "helper/layers.h"
#include "helper/tar_tree.h"
#include "helper/zstd_pipe.h"

struct packing {
    struct zstd_writer *out;
    struct sha256 sum;
};

static int put(void *ctx, const void *data, size_t len, struct err *err)
{
    struct packing *k = ctx;

    sha256_add(&k->sum, data, len);
    return zstd_write(k->out, data, len, err);
}

static int put_head(const struct plan *p, const struct merge_layer *layers, int fd,
                    struct packing *k, struct err *err)
{
    unsigned char frame[BUNDLE_FRAME];
    char base[DISK_DIGEST_MAX] = "";
    uint64_t inodes;
    uint64_t bytes;
    struct json_out o;
    struct buf text;
    int rc = layers_measure(layers, p->layer_count, &bytes, &inodes, err);
    int sys;

    if (rc == SP_OK && p->lower != NULL)
        rc = base_digest_of(p->lower, base, err);
    if (rc != SP_OK)
        return rc;
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "format", BUNDLE_FORMAT);
    json_put_u64(&o, "version", BUNDLE_VERSION);
    json_put_raw(&o, "snapshot", p->about);
    json_put_str(&o, "base", p->lower != NULL ? base : NULL);
    json_put_u64(&o, "bytes", bytes);
    json_put_u64(&o, "files", inodes);
    json_end(&o);
    buf_init(&text, BUNDLE_HEAD_MAX);
    json_out_finish(&o, &text);
    bundle_put_frame(frame, (uint32_t) text.len);
    sha256_add(&k->sum, buf_str(&text), text.len);
    sys = buf_failed(&text) ? EFBIG : file_write_all(fd, (const char *) frame, sizeof(frame));
    if (sys == 0)
        sys = file_write_all(fd, buf_str(&text), text.len);
    buf_fini(&text);
    return sys == 0 ? SP_OK : err_sys(err, SP_IO, sys, "write the head");
}

static int put_digest(struct packing *k, struct err *err)
{
    const struct stat st = {.st_mode = S_IFREG | 0444, .st_size = DISK_DIGEST_MAX - 1};
    static const char zeros[3 * TAR_BLOCK];
    unsigned char digest[32];
    char text[DISK_DIGEST_MAX];
    struct buf header;
    int rc;

    buf_init(&header, 4096);
    tar_put_header(&header, TAR_FILE, BUNDLE_DIGEST, NULL, &st);
    rc = put(k, buf_str(&header), header.len, err);
    buf_fini(&header);
    sha256_end(&k->sum, digest);
    digest_text(digest, text);
    if (rc == SP_OK)
        rc = zstd_write(k->out, text, DISK_DIGEST_MAX - 1, err);
    if (rc == SP_OK) /* the rest of its block, and the end of the archive */
        rc = zstd_write(k->out, zeros, sizeof(zeros) - (DISK_DIGEST_MAX - 1), err);
    return rc == SP_OK ? zstd_writer_end(k->out, err) : rc;
}

static int put_all(const struct plan *p, const struct merge_layer *layers, int fd, struct err *err)
{
    struct packing k = {.out = NULL};
    struct tar_tree tree = {.put = put, .ctx = &k, .prefix = BUNDLE_FILES};
    const struct merge_sink sink = {.put = tar_tree_item, .leave = tar_tree_leave, .ctx = &tree};
    int rc;

    tar_tree_init(&tree);
    sha256_init(&k.sum);
    rc = put_head(p, layers, fd, &k, err);
    if (rc == SP_OK)
        rc = zstd_writer_new(fd, &k.out, err);
    if (rc == SP_OK)
        rc = merge_layers(layers, p->layer_count, &sink, err);
    if (rc == SP_OK)
        rc = put_digest(&k, err);
    zstd_writer_free(k.out);
    tar_tree_fini(&tree);
    return rc;
}

int pack_snapshot(const struct plan *p, int fd, struct buf *answer, struct err *err)
{
    struct merge_layer layers[PLAN_LAYERS_MAX];
    size_t count = 0;
    int rc = layers_open(p, layers, &count, err);

    if (rc == SP_OK)
        rc = put_all(p, layers, fd, err);
    layers_close(layers, count);
    if (rc == SP_OK)
        buf_puts(answer, "{}");
    return rc;
}
