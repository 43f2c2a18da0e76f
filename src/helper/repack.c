/* repack.c - of what the engine saves only layers are taken, and how programs are started. Its labels say whose the snapshot is, its
 * history how the image below was made, and old engines add the configuration of a container: none of it goes on. */
#include "helper/repack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"
#include "helper/bundle_file.h"
#include "helper/image_config.h"
#include "helper/image_out.h"
#include "helper/saved_image.h"
#include "helper/start.h"

enum { PIECE = 256 * 1024, CONFIG_MAX = 1024 * 1024 };

struct repacking {
    struct saved_image saved;
    const struct saved_file *files[IMAGE_LAYERS_MAX];
    struct image_layer layers[IMAGE_LAYERS_MAX];
    size_t count;
    struct buf config;
};

/* --- what is in it --- */

/* The diff_ids of the config are digests of what is not compressed. */
static int take_layers(struct repacking *k, const struct json *image, const struct json *config,
                       struct err *err)
{
    const struct json *ids = json_get(json_get(config, "rootfs"), "diff_ids");
    const struct json *names = json_get(image, "Layers");

    if (json_len(names) == 0 || json_len(names) != json_len(ids))
        return err_set(err, SP_PROTOCOL, "the engine's archive does not say which layers it has");
    if (json_len(names) > IMAGE_LAYERS_MAX)
        return err_set(err, SP_UNSUPPORTED, "the image has more than %d layers", IMAGE_LAYERS_MAX);
    for (size_t i = 0; i < json_len(names); i++) {
        const struct saved_file *f = saved_image_find(&k->saved, json_str(json_at(names, i)));
        const char *id = json_str(json_at(ids, i));

        if (f == NULL || id == NULL)
            return err_set(err, SP_PROTOCOL, "a layer is missing in the engine's archive");
        if (strcmp(id, f->digest) != 0)
            return err_set(err, SP_UNSUPPORTED,
                           "the engine saves layers compressed, which is not read here");
        k->files[i] = f;
        memcpy(k->layers[i].digest, f->digest, sizeof(f->digest));
        k->layers[i].size = f->size;
    }
    k->count = json_len(names);
    return SP_OK;
}

static int look(struct repacking *k, struct err *err)
{
    struct json_doc *list = NULL;
    struct json_doc *config = NULL;
    const struct json *image;
    const char *name;
    int rc = saved_image_json(&k->saved, "manifest.json", &list, err);

    if (rc != SP_OK)
        return rc;
    image = json_at(json_root(list), 0);
    name = json_str(json_get(image, "Config"));
    if (json_len(json_root(list)) != 1 || name == NULL)
        rc = err_set(err, SP_PROTOCOL, "the engine's archive does not have one image");
    if (rc == SP_OK)
        rc = saved_image_json(&k->saved, name, &config, err);
    if (rc == SP_OK)
        rc = take_layers(k, image, json_root(config), err);
    if (rc == SP_OK)
        image_config_print(json_get(json_root(config), "config"), NULL, &k->config);
    if (rc == SP_OK && buf_failed(&k->config))
        rc = err_set(err, SP_UNSUPPORTED, "the config of the image is too long");
    (void) json_doc_free(config);
    (void) json_doc_free(list);
    return rc;
}

/* --- the result --- */

static bool is_before(const struct repacking *k, size_t i)
{
    for (size_t n = 0; n < i; n++)
        if (strcmp(k->layers[n].digest, k->layers[i].digest) == 0)
            return true;
    return false;
}

static int put_layer(const struct repacking *k, const struct saved_file *f, struct image_out *o,
                     struct err *err)
{
    static char piece[PIECE];
    uint64_t at = f->at;
    int rc = image_out_blob(o, f->digest, f->size, err);

    while (rc == SP_OK && at < f->at + f->size) {
        ssize_t n = pread(k->saved.data, piece,
                          MIN_OF((size_t) (f->at + f->size - at), sizeof(piece)), (off_t) at);

        if (n <= 0)
            return err_sys(err, SP_IO, n < 0 ? errno : EIO, "read the image");
        if (start_is_stopped())
            return err_set(err, SP_CANCELLED, "stopped by a signal");
        rc = image_out_write(o, piece, (size_t) n, err);
        at += (uint64_t) n;
    }
    return rc == SP_OK ? image_out_pad(o, f->size, err) : rc;
}

static int put_image(const struct plan *p, const struct repacking *k, struct image_out *o,
                     struct err *err)
{
    const struct image_about about = {.name = p->name,
                                      .tag = strrchr(p->name, ':') + 1,
                                      .config = buf_str(&k->config),
                                      .created = p->created,
                                      .layers = k->layers,
                                      .layer_count = k->count};
    char config[DISK_DIGEST_MAX];
    int rc = image_out_begin(o, err);

    for (size_t i = 0; rc == SP_OK && i < k->count; i++)
        if (!is_before(k, i))
            rc = put_layer(k, k->files[i], o, err);
    return rc == SP_OK ? image_out_about(o, &about, config, err) : rc;
}

static int put_bundle(const struct plan *p, const struct repacking *k, int fd, struct err *err)
{
    struct bundle_writer w = {.out = NULL};
    struct image_out o = {.put = bundle_put, .ctx = &w};
    struct bundle_head head = {.files = k->count};
    int rc;

    for (size_t i = 0; i < k->count; i++)
        head.bytes += k->layers[i].size;
    image_out_init(&o);
    rc = bundle_begin(&w, fd, p->about, &head, err);
    if (rc == SP_OK)
        rc = put_image(p, k, &o, err);
    if (rc == SP_OK)
        rc = image_out_flush(&o, err);
    if (rc == SP_OK)
        rc = bundle_end(&w, err);
    image_out_fini(&o);
    bundle_free(&w);
    return rc;
}

static int put_plain(const struct plan *p, const struct repacking *k, int fd, struct err *err)
{
    struct image_out o = {.put = image_out_to_fd, .ctx = &fd};
    int rc;

    image_out_init(&o);
    rc = put_image(p, k, &o, err);
    if (rc == SP_OK)
        rc = image_out_end(&o, err);
    image_out_fini(&o);
    return rc;
}

int repack_image(const struct plan *p, int fd, struct buf *answer, struct err *err)
{
    struct repacking k = {.count = 0};
    AUTO_CLOSE int out = fdpass_receive(fd);
    int rc;

    if (out < 0)
        return err_sys(err, SP_IO, errno, "receive a descriptor");
    buf_init(&k.config, CONFIG_MAX);
    rc = saved_image_read(&k.saved, fd, p->dir, p->max_bytes, p->reserve, err);
    if (rc == SP_OK)
        rc = look(&k, err);
    if (rc == SP_OK)
        rc = p->about != NULL ? put_bundle(p, &k, out, err) : put_plain(p, &k, out, err);
    saved_image_free(&k.saved);
    buf_fini(&k.config);
    if (rc == SP_OK)
        buf_puts(answer, "{}");
    return rc;
}
