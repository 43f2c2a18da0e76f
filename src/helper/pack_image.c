/* pack_image.c - every layer is read twice: its name in the archive is its digest, and stands before it. All of them are read once
 * before the first byte is written, so that whatever cannot be in an image is reported while that can be. */
#include "helper/pack_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/tar_write.h"
#include "helper/idmap.h"
#include "helper/image_out.h"
#include "helper/layers.h"
#include "helper/tar_tree.h"

#define GB (1024ULL * 1024 * 1024)

/* Ours, in every box: the agent is not in images. */
#define OWN_DIR ".sandpool"

enum { PULSE_S = 20, PULSE_BYTES = 16 * 1024 * 1024 };

enum { HOST_MAX = PLAN_LAYERS_MAX };

/* A tree of files, merged from `count` layers, below `prefix`. */
struct part {
    struct merge_layer layers[PLAN_LAYERS_MAX];
    size_t count;
    const char *prefix;
};

struct packing {
    struct part lower; /* that boxes are built on, */
    struct part host[HOST_MAX];
    size_t host_count;
    struct part snapshot;
    uint64_t room; /* how much more may be in it */
};

/* One layer of the image: on the first way its digest is found, on the second it is written. */
struct pass {
    struct image_out *out;
    bool is_writing;
    struct sha256 sum;
    uint64_t size;
    uint64_t limit;
};

/* Whether so long nothing was written that others could take us for dead. */
static bool is_quiet(struct pass *s, size_t len)
{
    static time_t since;
    struct timespec now;

    if (s->size / PULSE_BYTES == (s->size - len) / PULSE_BYTES)
        return false;
    (void) clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    if (since == 0)
        since = now.tv_sec;
    if (now.tv_sec - since < PULSE_S)
        return false;
    since = now.tv_sec;
    return true;
}

static int put(void *ctx, const void *data, size_t len, struct err *err)
{
    struct pass *s = ctx;

    if (len > s->limit - s->size)
        return !s->is_writing
                   ? err_set(
                         err, SP_BODY_TOO_LARGE,
                         "the image would have more than the allowed size: holes in files count, too")
                   : err_set(err, SP_IO, "files have changed while they were read: try again");
    s->size += len;
    sha256_add(&s->sum, data, len);
    if (s->is_writing)
        return image_out_write(s->out, data, len, err);
    return is_quiet(s, len) ? image_out_pulse(s->out, err) : SP_OK;
}

static int walk(struct pass *s, const struct part *parts, size_t count, struct err *err)
{
    int rc = SP_OK;
    static const char end[2 * TAR_BLOCK];

    for (size_t i = 0; rc == SP_OK && i < count; i++) {
        struct tar_tree tree = {.put = put,
                                .ctx = s,
                                .prefix = parts[i].prefix,
                                .is_image = true,
                                .left_out = OWN_DIR,
                                .file_max = s->limit};
        const struct merge_sink sink = {
            .put = tar_tree_item, .leave = tar_tree_leave, .ctx = &tree};

        tar_tree_init(&tree);
        rc = merge_layers(parts[i].layers, parts[i].count, &sink, err);
        tar_tree_fini(&tree);
    }
    return rc == SP_OK ? put(s, end, sizeof(end), err) : rc;
}

static int measure(struct packing *k, struct image_out *o, const struct part *parts, size_t count,
                   struct image_layer *ret, struct err *err)
{
    struct pass s = {.out = o, .limit = k->room};
    unsigned char digest[32];
    int rc;

    sha256_init(&s.sum);
    rc = walk(&s, parts, count, err);
    sha256_end(&s.sum, digest);
    digest_text(digest, ret->digest);
    ret->size = s.size;
    k->room -= s.size;
    return rc;
}

static int write_layer(struct image_out *o, const struct part *parts, size_t count,
                       const struct image_layer *layer, struct err *err)
{
    struct pass s = {.out = o, .is_writing = true, .limit = layer->size};
    char found[DISK_DIGEST_MAX];
    unsigned char digest[32];
    int rc = image_out_blob(o, layer->digest, layer->size, err);

    sha256_init(&s.sum);
    if (rc == SP_OK)
        rc = walk(&s, parts, count, err);
    sha256_end(&s.sum, digest);
    digest_text(digest, found);
    if (rc == SP_OK && strcmp(found, layer->digest) != 0)
        rc = err_set(err, SP_IO, "files have changed while they were read: try again");
    return rc == SP_OK ? image_out_pad(o, layer->size, err) : rc;
}

/* A copy of the mount, so that nothing is seen that is mounted below: boxes do not see it either. */
static int open_tree_of(const char *path, struct part *ret, struct err *err)
{
    AUTO_CLOSE int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int tree = -1;
    int rc;

    if (dir < 0)
        return err_sys(err, SP_IO, errno, "open '%.150s'", path);
    if ((rc = idmap_copy(dir, false, &tree, err)) != SP_OK)
        return rc;
    ret->layers[0].fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ret->layers[0].fd < 0)
        return err_sys(err, SP_IO, errno, "open '%.150s'", path);
    ret->layers[0].is_base = true;
    ret->count = 1;
    return SP_OK;
}

/* Before the stage is covered, which they may lie below. */
static int open_lower(const struct plan *p, struct packing *k, struct err *err)
{
    int rc = open_tree_of(p->lower, &k->lower, err);

    k->lower.prefix = "";
    for (size_t i = 0; rc == SP_OK && i < p->from_count; i++) {
        struct part *h = &k->host[i];

        rc = open_tree_of(p->from[i], h, err);
        h->prefix = p->from[i] + 1; /* it is absolute */
        h->layers[0].is_host = true;
        if (rc == SP_OK)
            k->host_count++;
    }
    return rc;
}

static void close_all(struct packing *k)
{
    layers_close(k->lower.layers, k->lower.count);
    for (size_t i = 0; i < k->host_count; i++)
        layers_close(k->host[i].layers, k->host[i].count);
    layers_close(k->snapshot.layers, k->snapshot.count);
}

struct content {
    const struct part *parts;
    size_t count;
};

static int put_image(const struct plan *p, struct packing *k, int fd, struct err *err)
{
    const struct content contents[] = {{&k->lower, 1}, {k->host, k->host_count}, {&k->snapshot, 1}};
    struct image_layer layers[ARRAY_LEN(contents)];
    const struct image_about about = {.name = p->name,
                                      .tag = strrchr(p->name, ':') + 1, /* plan_read_image() */
                                      .config = p->about,
                                      .created = p->created,
                                      .layers = layers,
                                      .layer_count = k->host_count > 0 ? 3 : 2};
    const struct content *used[ARRAY_LEN(contents)];
    struct image_out out = {.put = image_out_to_fd, .ctx = &fd};
    char config[DISK_DIGEST_MAX];
    size_t n = 0;
    int rc;

    image_out_init(&out);
    rc = image_out_begin(&out, err); /* held back, as long as it is little */
    for (size_t i = 0; rc == SP_OK && i < ARRAY_LEN(contents); i++) {
        if (contents[i].count == 0)
            continue;
        used[n] = &contents[i];
        rc = measure(k, &out, contents[i].parts, contents[i].count, &layers[n++], err);
    }
    for (size_t i = 0; rc == SP_OK && i < n; i++)
        rc = write_layer(&out, used[i]->parts, used[i]->count, &layers[i], err);
    if (rc == SP_OK)
        rc = image_out_about(&out, &about, config, err);
    if (rc == SP_OK)
        rc = image_out_end(&out, err);
    image_out_fini(&out);
    return rc;
}

int pack_image(const struct plan *p, int fd, struct buf *answer, struct err *err)
{
    struct packing *k = xcalloc(1, sizeof(*k));
    int rc;

    k->room = MIN_OF(p->max_bytes, 1024 * GB);
    k->snapshot.prefix = "";
    rc = open_lower(p, k, err);
    if (rc == SP_OK)
        rc = layers_open(p, k->snapshot.layers, &k->snapshot.count, err);
    if (rc == SP_OK)
        rc = put_image(p, k, fd, err);
    close_all(k);
    free(k);
    if (rc == SP_OK)
        buf_puts(answer, "{}");
    return rc;
}
