/* image_out.c - what names the blobs comes last, when their digests are known. */
#include "helper/image_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tar_write.h"

enum { BUFFER = 256 * 1024, TEXT_MAX = 1024 * 1024 };

#define MEDIA "application/vnd.oci.image."

/* As images name processors. */
#if defined(__x86_64__)
#define ARCHITECTURE "amd64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#elif defined(__riscv)
#define ARCHITECTURE "riscv64"
#elif defined(__s390x__)
#define ARCHITECTURE "s390x"
#elif defined(__powerpc64__)
#define ARCHITECTURE "ppc64le"
#else
#define ARCHITECTURE "unknown"
#endif

int image_out_to_fd(void *ctx, const void *data, size_t len, struct err *err)
{
    int sys = file_write_all(*(int *) ctx, data, len);

    return sys == 0 ? SP_OK : err_sys(err, SP_IO, sys, "write the image");
}

void image_out_init(struct image_out *o)
{
    o->used = 0;
    o->buffer = xcalloc(1, BUFFER);
}

void image_out_fini(struct image_out *o)
{
    free(o->buffer);
    o->buffer = NULL;
}

int image_out_flush(struct image_out *o, struct err *err)
{
    size_t len = o->used;

    o->used = 0;
    return len > 0 ? o->put(o->ctx, o->buffer, len, err) : SP_OK;
}

int image_out_write(struct image_out *o, const void *data, size_t len, struct err *err)
{
    const char *from = data;
    int rc = SP_OK;

    while (rc == SP_OK && len > 0) {
        size_t n = MIN_OF(len, BUFFER - o->used);

        memcpy(o->buffer + o->used, from, n);
        o->used += n;
        from += n;
        len -= n;
        if (o->used == BUFFER)
            rc = image_out_flush(o, err);
    }
    return rc;
}

int image_out_pad(struct image_out *o, uint64_t size, struct err *err)
{
    static const char zeros[TAR_BLOCK];

    return image_out_write(o, zeros, tar_padding(size), err);
}

static int put_header(struct image_out *o, char type, const char *name, uint64_t size,
                      struct err *err)
{
    const struct stat st = {.st_mode = type == TAR_DIRECTORY ? S_IFDIR | 0755 : S_IFREG | 0644,
                            .st_size = (off_t) size};
    struct buf header;
    int rc;

    buf_init(&header, 8192);
    tar_put_header(&header, type, name, NULL, &st);
    rc = image_out_write(o, buf_str(&header), header.len, err);
    buf_fini(&header);
    return rc;
}

static int put_file(struct image_out *o, const char *name, const struct buf *text, struct err *err)
{
    int rc;

    if (buf_failed(text))
        return err_set(err, SP_TOO_BIG, "'%s' of the image is too long", name);
    if ((rc = put_header(o, TAR_FILE, name, text->len, err)) != SP_OK ||
        (rc = image_out_write(o, buf_str(text), text->len, err)) != SP_OK)
        return rc;
    return image_out_pad(o, text->len, err);
}

static void blob_name(char *dst, size_t cap, const char *digest)
{
    (void) snprintf(dst, cap, "blobs/sha256/%s", digest + strlen("sha256:"));
}

int image_out_begin(struct image_out *o, struct err *err)
{
    struct buf text;
    int rc;

    buf_init(&text, 256);
    buf_puts(&text, "{\"imageLayoutVersion\":\"1.0.0\"}");
    rc = put_file(o, "oci-layout", &text, err);
    buf_fini(&text);
    if (rc == SP_OK)
        rc = put_header(o, TAR_DIRECTORY, "blobs", 0, err);
    return rc == SP_OK ? put_header(o, TAR_DIRECTORY, "blobs/sha256", 0, err) : rc;
}

int image_out_pulse(struct image_out *o, struct err *err)
{
    int rc = put_header(o, TAR_DIRECTORY, "blobs", 0, err);

    return rc == SP_OK ? image_out_flush(o, err) : rc;
}

int image_out_blob(struct image_out *o, const char *digest, uint64_t size, struct err *err)
{
    char name[128];

    blob_name(name, sizeof(name), digest);
    return put_header(o, TAR_FILE, name, size, err);
}

/* --- the texts --- */

static void print_config(const struct image_about *a, struct buf *out)
{
    struct json_out j;

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "created", a->created);
    json_put_str(&j, "architecture", ARCHITECTURE);
    json_put_str(&j, "os", "linux");
    json_put_raw(&j, "config", a->config);
    json_begin_obj(&j, "rootfs");
    json_put_str(&j, "type", "layers");
    json_begin_arr(&j, "diff_ids");
    for (size_t i = 0; i < a->layer_count; i++)
        json_put_str(&j, NULL, a->layers[i].digest);
    json_end(&j);
    json_end(&j);
    json_begin_arr(&j, "history");
    for (size_t i = 0; i < a->layer_count; i++) {
        json_begin_obj(&j, NULL);
        json_put_str(&j, "created", a->created);
        json_put_str(&j, "created_by", "sandpool snapshot export");
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
    json_out_finish(&j, out);
}

static void put_descriptor(struct json_out *j, const char *key, const char *type,
                           const struct image_layer *blob)
{
    json_begin_obj(j, key);
    json_put_str(j, "mediaType", type);
    json_put_str(j, "digest", blob->digest);
    json_put_u64(j, "size", blob->size);
}

static void print_manifest(const struct image_about *a, const struct image_layer *config,
                           struct buf *out)
{
    struct json_out j;

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_u64(&j, "schemaVersion", 2);
    json_put_str(&j, "mediaType", MEDIA "manifest.v1+json");
    put_descriptor(&j, "config", MEDIA "config.v1+json", config);
    json_end(&j);
    json_begin_arr(&j, "layers");
    for (size_t i = 0; i < a->layer_count; i++) {
        put_descriptor(&j, NULL, MEDIA "layer.v1.tar", &a->layers[i]);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
    json_out_finish(&j, out);
}

static void print_index(const struct image_about *a, const struct image_layer *manifest,
                        struct buf *out)
{
    struct json_out j;

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_u64(&j, "schemaVersion", 2);
    json_put_str(&j, "mediaType", MEDIA "index.v1+json");
    json_begin_arr(&j, "manifests");
    put_descriptor(&j, NULL, MEDIA "manifest.v1+json", manifest);
    json_begin_obj(&j, "annotations");
    json_put_str(&j, "io.containerd.image.name", a->name);
    json_put_str(&j, "org.opencontainers.image.ref.name", a->tag);
    json_end(&j);
    json_end(&j);
    json_end(&j);
    json_end(&j);
    json_out_finish(&j, out);
}

/* For `docker load`: which image has which layers. */
static void print_saved(const struct image_about *a, const struct image_layer *config,
                        struct buf *out)
{
    const char *slash = strchr(a->name, '/');
    char name[128];
    struct json_out j;

    json_out_init(&j);
    json_begin_arr(&j, NULL);
    json_begin_obj(&j, NULL);
    blob_name(name, sizeof(name), config->digest);
    json_put_str(&j, "Config", name);
    json_begin_arr(&j, "RepoTags");
    json_put_str(&j, NULL, slash != NULL ? slash + 1 : a->name);
    json_end(&j);
    json_begin_arr(&j, "Layers");
    for (size_t i = 0; i < a->layer_count; i++) {
        blob_name(name, sizeof(name), a->layers[i].digest);
        json_put_str(&j, NULL, name);
    }
    json_end(&j);
    json_end(&j);
    json_end(&j);
    json_out_finish(&j, out);
}

static int put_text_blob(struct image_out *o, const struct buf *text, struct image_layer *ret,
                         struct err *err)
{
    unsigned char digest[32];
    struct sha256 sum;
    char name[128];

    sha256_init(&sum);
    sha256_add(&sum, buf_str(text), text->len);
    sha256_end(&sum, digest);
    digest_text(digest, ret->digest);
    ret->size = text->len;
    blob_name(name, sizeof(name), ret->digest);
    return put_file(o, name, text, err);
}

int image_out_about(struct image_out *o, const struct image_about *a,
                    char ret_config[DISK_DIGEST_MAX], struct err *err)
{
    struct image_layer config = {.size = 0};
    struct image_layer manifest;
    struct buf text;
    int rc;

    buf_init(&text, TEXT_MAX);
    print_config(a, &text);
    rc = put_text_blob(o, &text, &config, err);
    buf_reset(&text);
    if (rc == SP_OK) {
        print_manifest(a, &config, &text);
        rc = put_text_blob(o, &text, &manifest, err);
    }
    buf_reset(&text);
    if (rc == SP_OK) {
        print_saved(a, &config, &text);
        rc = put_file(o, "manifest.json", &text, err);
    }
    buf_reset(&text);
    if (rc == SP_OK) {
        print_index(a, &manifest, &text);
        rc = put_file(o, "index.json", &text, err);
    }
    buf_fini(&text);
    memcpy(ret_config, config.digest, DISK_DIGEST_MAX);
    return rc;
}

int image_out_end(struct image_out *o, struct err *err)
{
    static const char zeros[2 * TAR_BLOCK];
    int rc = image_out_write(o, zeros, sizeof(zeros), err);

    return rc == SP_OK ? image_out_flush(o, err) : rc;
}
