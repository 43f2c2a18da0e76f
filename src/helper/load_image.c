/* load_image.c - a stranger's file becomes an archive that is given to an engine. Nothing that the file says of names, labels or
 * history reaches the engine: layers pass, each with the digest that it is named by, and what names them is written here, when the
 * digest of the file was right. So an engine gets either one image under our name or an archive that it cannot load. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bundle.h"
#include "base/cleanup.h"
#include "base/fdpass.h"
#include "base/mem.h"
#include "helper/bundle_file.h"
#include "helper/image_config.h"
#include "helper/image_out.h"
#include "helper/layer_check.h"
#include "helper/repack.h"
#include "helper/start.h"

#define MB (1024ULL * 1024)
#define BLOBS "blobs/sha256/"

enum {
    PIECE = 256 * 1024,
    TEXT_MAX = 1024 * 1024,
    BLOBS_MAX = IMAGE_LAYERS_MAX + 2,
    TEXTS_MAX = 4
};

struct blob {
    struct image_layer is;
    char *text; /* one that may be a config or a manifest; NULL: it is too long for that */
    struct err why_no_layer; /* code SP_OK: it is one */
};

/* One that goes through to the engine while it is looked at. */
struct passing {
    struct loading *l;
    struct blob *b;
    struct sha256 sum;
    uint64_t at;
    int rc; /* what went wrong on the way */
    struct err *err;
};

struct loading {
    const struct plan *plan;
    struct zstd_reader *in;
    struct sha256 sum;
    struct tar_reader reader;
    struct tar_entry entry;
    struct image_out out;
    struct blob blobs[BLOBS_MAX];
    size_t count;
    uint64_t left; /* bytes that blobs may still have */
    char *index;
    size_t index_len;
};

static ssize_t read_archive(void *ctx, void *dst, size_t cap)
{
    struct loading *l = ctx;
    ssize_t n = zstd_read(l->in, dst, cap);

    if (n > 0)
        sha256_add(&l->sum, dst, (size_t) n);
    return n;
}

static int bad(struct err *err, const char *text, const char *name)
{
    return err_set(err, SP_PROTOCOL, "%s: '%.120s'", text, name);
}

static int no_layer(const struct blob *b, struct err *err)
{
    return err_set(err, SP_PROTOCOL, "a layer of the image is no archive as engines write it: %s",
                   b->why_no_layer.msg);
}

/* --- blobs --- */

static struct blob *find(struct loading *l, const char *digest)
{
    for (size_t i = 0; digest != NULL && i < l->count; i++)
        if (strcmp(l->blobs[i].is.digest, digest) == 0)
            return &l->blobs[i];
    return NULL;
}

static ssize_t pass(void *ctx, void *dst, size_t cap)
{
    struct passing *p = ctx;
    struct loading *l = p->l;
    ssize_t n = p->at < p->b->is.size ? tar_reader_data(&l->reader, dst, cap) : 0;

    if (p->rc != SP_OK || n == 0)
        return p->rc != SP_OK ? -1 : 0;
    if (n < 0)
        p->rc = bad(p->err, "the file is cut in the middle of a blob", l->entry.name);
    else if (start_is_stopped())
        p->rc = err_set(p->err, SP_CANCELLED, "stopped by a signal");
    if (p->rc != SP_OK)
        return -1;
    sha256_add(&p->sum, dst, (size_t) n);
    if (p->b->text != NULL)
        memcpy(p->b->text + p->at, dst, (size_t) n);
    p->at += (uint64_t) n;
    p->rc = image_out_write(&l->out, dst, (size_t) n, p->err);
    return p->rc == SP_OK ? n : -1;
}

/* Whether it is a layer or a text is said behind it. */
static int copy_blob(struct loading *l, struct blob *b, struct err *err)
{
    static char piece[PIECE];
    struct passing p = {.l = l, .b = b, .err = err};
    unsigned char digest[32];
    char found[DISK_DIGEST_MAX];

    sha256_init(&p.sum);
    if (layer_check(pass, &p, &b->why_no_layer) == SP_OK)
        b->why_no_layer.code = SP_OK;
    else if (p.rc == SP_OK && b->text == NULL)
        return no_layer(b, err); /* too long for a text */
    while (pass(&p, piece, sizeof(piece)) > 0) {
    }
    sha256_end(&p.sum, digest);
    digest_text(digest, found);
    if (p.rc == SP_OK && strcmp(found, b->is.digest) != 0)
        return bad(err, "a blob does not have the digest that it is named by", l->entry.name);
    return p.rc;
}

/* Texts are small, and so may layers be: what is short is kept until it is known what it is. */
static int take_blob(struct loading *l, struct err *err)
{
    const char *name = l->entry.name + strlen(BLOBS);
    struct blob *b = &l->blobs[l->count];
    int rc;

    if (strlen(name) != 64 || strspn(name, "0123456789abcdef") != 64)
        return bad(err, "a blob is not named by a digest", l->entry.name);
    if (l->count == BLOBS_MAX)
        return err_set(err, SP_PROTOCOL, "the image has more than %d layers", IMAGE_LAYERS_MAX);
    if (l->entry.size > l->left)
        return err_set(err, SP_BODY_TOO_LARGE, "more is in the file than it says");
    (void) snprintf(b->is.digest, sizeof(b->is.digest), "sha256:%s", name);
    if (find(l, b->is.digest) != NULL)
        return bad(err, "it is there twice", l->entry.name);
    b->is.size = l->entry.size;
    l->left -= l->entry.size;
    if (b->is.size <= TEXT_MAX)
        b->text = xcalloc(1, b->is.size + 1);
    l->count++;
    rc = image_out_blob(&l->out, b->is.digest, b->is.size, err);
    if (rc == SP_OK)
        rc = copy_blob(l, b, err);
    return rc == SP_OK ? image_out_pad(&l->out, b->is.size, err) : rc;
}

static int take_index(struct loading *l, struct err *err)
{
    if (l->index != NULL || l->entry.size > TEXT_MAX)
        return bad(err, "it is there twice, or too long", l->entry.name);
    l->index = xcalloc(1, l->entry.size + 1);
    while (l->index_len < l->entry.size) {
        ssize_t n = tar_reader_data(&l->reader, l->index + l->index_len,
                                    (size_t) l->entry.size - l->index_len);

        if (n <= 0)
            return bad(err, "the file is cut", l->entry.name);
        l->index_len += (size_t) n;
    }
    return SP_OK;
}

static int take_entry(struct loading *l, struct err *err)
{
    const char *name = l->entry.name;

    if (l->entry.type == TAR_DIRECTORY)
        return SP_OK;
    if (l->entry.type != TAR_FILE)
        return bad(err, "it has something else than files", name);
    if (strncmp(name, BLOBS, strlen(BLOBS)) == 0)
        return take_blob(l, err);
    if (strcmp(name, "index.json") == 0)
        return take_index(l, err);
    if (strcmp(name, "oci-layout") == 0 || strcmp(name, "manifest.json") == 0)
        return SP_OK; /* ours are written instead */
    return bad(err, "it has an entry that no exported snapshot has", name);
}

/* --- the image --- */

static int parse_blob(struct loading *l, const struct json *descriptor, struct json_doc **ret,
                      struct err *err)
{
    const struct blob *b = find(l, json_str(json_get(descriptor, "digest")));

    if (b == NULL || b->text == NULL)
        return err_set(err, SP_PROTOCOL, "a part of the image is missing");
    *ret = json_parse(b->text, b->is.size, TEXT_MAX, err);
    if (*ret == NULL) {
        err->code = SP_PROTOCOL;
        return err_wrap(err, "a part of the image");
    }
    return SP_OK;
}

static int take_layers(struct loading *l, const struct json *list, struct image_layer *ret,
                       struct err *err)
{
    if (json_len(list) == 0 || json_len(list) > IMAGE_LAYERS_MAX)
        return err_set(err, SP_PROTOCOL, "an image has 1 to %d layers", IMAGE_LAYERS_MAX);
    for (size_t i = 0; i < json_len(list); i++) {
        const struct blob *b = find(l, json_str(json_get(json_at(list, i), "digest")));

        if (b == NULL)
            return err_set(err, SP_PROTOCOL, "a layer of the image is missing");
        if (b->why_no_layer.code != SP_OK)
            return no_layer(b, err);
        ret[i] = b->is;
    }
    return SP_OK;
}

static int put_about(struct loading *l, const struct json *manifest, const struct json *config,
                     struct buf *answer, struct err *err)
{
    struct image_layer layers[IMAGE_LAYERS_MAX];
    const struct json *list = json_get(manifest, "layers");
    char image[DISK_DIGEST_MAX];
    struct json_out j;
    struct buf text;
    int rc = image_config_check(json_get(config, "config"), err);

    if (rc == SP_OK)
        rc = take_layers(l, list, layers, err);
    if (rc != SP_OK)
        return rc;
    buf_init(&text, TEXT_MAX);
    image_config_print(json_get(config, "config"), l->plan->about, &text);
    rc = buf_failed(&text)
             ? err_set(err, SP_PROTOCOL, "the config of the image is too long")
             : image_out_about(&l->out,
                               &(struct image_about){.name = l->plan->name,
                                                     .tag = strrchr(l->plan->name, ':') + 1,
                                                     .config = buf_str(&text),
                                                     .created = l->plan->created,
                                                     .layers = layers,
                                                     .layer_count = json_len(list)},
                               image, err);
    buf_fini(&text);
    if (rc == SP_OK)
        rc = image_out_end(&l->out, err);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "image", rc == SP_OK ? image : "");
    json_end(&j);
    json_out_finish(&j, answer);
    return rc;
}

static int put_image(struct loading *l, struct buf *answer, struct err *err)
{
    struct json_doc *index =
        l->index != NULL ? json_parse(l->index, l->index_len, TEXT_MAX, err) : NULL;
    const struct json *list = index != NULL ? json_get(json_root(index), "manifests") : NULL;
    struct json_doc *manifest = NULL;
    struct json_doc *config = NULL;
    int rc = SP_OK;

    if (json_len(list) != 1)
        rc = err_set(err, SP_PROTOCOL, "the file does not have one image");
    if (rc == SP_OK)
        rc = parse_blob(l, json_at(list, 0), &manifest, err);
    if (rc == SP_OK)
        rc = parse_blob(l, json_get(json_root(manifest), "config"), &config, err);
    if (rc == SP_OK)
        rc = put_about(l, json_root(manifest), json_root(config), answer, err);
    (void) json_doc_free(config);
    (void) json_doc_free(manifest);
    (void) json_doc_free(index);
    return rc;
}

/* --- the file --- */

static int read_entries(struct loading *l, struct err *err)
{
    struct err problem;

    for (;;) {
        enum tar_result result = tar_reader_next(&l->reader, &l->entry);
        int rc = SP_OK;

        if (result != TAR_ENTRY)
            rc = err_set(err, SP_PROTOCOL, "%s",
                         result == TAR_BAD ? l->reader.problem : "the archive has no digest");
        else if (l->entry.type == TAR_FILE && strcmp(l->entry.name, BUNDLE_DIGEST) == 0)
            break;
        else
            rc = take_entry(l, err);
        if (rc != SP_OK && zstd_reader_problem(l->in, &problem) != SP_OK)
            *err = problem;
        if (rc != SP_OK)
            return err->code;
    }
    if (bundle_check_digest(&l->reader, l->entry.size, &l->sum, err) != SP_OK)
        return err->code;
    if (tar_reader_next(&l->reader, &l->entry) != TAR_END)
        return err_set(err, SP_PROTOCOL, "something follows the digest");
    return SP_OK;
}

static int load(struct loading *l, int in, struct buf *answer, struct err *err)
{
    struct bundle_head head = {.bytes = 0};
    int rc = bundle_read_head(in, &l->sum, &head, err);

    if (rc != SP_OK)
        return rc;
    if (head.bytes > l->plan->max_bytes)
        return err_set(err, SP_BODY_TOO_LARGE, "the snapshot has %llu MB, and %llu MB are allowed",
                       (unsigned long long) (head.bytes / MB),
                       (unsigned long long) (l->plan->max_bytes / MB));
    l->left = head.bytes + TEXTS_MAX * TEXT_MAX;
    if ((rc = zstd_reader_new(in, head.bytes + 64 * MB, &l->in, err)) != SP_OK ||
        (rc = image_out_begin(&l->out, err)) != SP_OK || (rc = read_entries(l, err)) != SP_OK)
        return rc;
    return put_image(l, answer, err);
}

int load_image(const struct plan *p, int fd, struct buf *answer, struct err *err)
{
    struct loading *l = xcalloc(1, sizeof(*l));
    AUTO_CLOSE int in = fdpass_receive(fd);
    int rc;

    l->plan = p;
    l->out = (struct image_out){.put = image_out_to_fd, .ctx = &fd};
    image_out_init(&l->out);
    sha256_init(&l->sum);
    tar_reader_init(&l->reader, read_archive, l);
    rc = in < 0 ? err_sys(err, SP_IO, errno, "receive a descriptor") : load(l, in, answer, err);
    tar_reader_fini(&l->reader);
    zstd_reader_free(l->in);
    image_out_fini(&l->out);
    for (size_t i = 0; i < l->count; i++)
        free(l->blobs[i].text);
    free(l->index);
    free(l);
    return rc;
}
