/* bundle_file.c - see bundle_file.h. */
#include "helper/bundle_file.h"

#include <errno.h>
#include <string.h>

#include "base/bundle.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tar_write.h"
#include "helper/start.h"

#define COUNT_MAX (1ULL << 50)

/* --- writing --- */

int bundle_begin(struct bundle_writer *w, int fd, const char *about, const struct bundle_head *head,
                 struct err *err)
{
    unsigned char frame[BUNDLE_FRAME];
    struct json_out o;
    struct buf text;
    int sys;

    *w = (struct bundle_writer){.fd = fd};
    sha256_init(&w->sum);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "format", BUNDLE_FORMAT);
    json_put_u64(&o, "version", BUNDLE_VERSION);
    json_put_raw(&o, "snapshot", about);
    json_put_str(&o, "base", head->base[0] != '\0' ? head->base : NULL);
    json_put_u64(&o, "bytes", head->bytes);
    json_put_u64(&o, "files", head->files);
    json_end(&o);
    buf_init(&text, BUNDLE_HEAD_MAX);
    json_out_finish(&o, &text);
    bundle_put_frame(frame, (uint32_t) text.len);
    sha256_add(&w->sum, buf_str(&text), text.len);
    sys = buf_failed(&text) ? EFBIG : file_write_all(fd, (const char *) frame, sizeof(frame));
    if (sys == 0)
        sys = file_write_all(fd, buf_str(&text), text.len);
    buf_fini(&text);
    return sys == 0 ? zstd_writer_new(fd, &w->out, err)
                    : err_sys(err, SP_IO, sys, "write the head");
}

int bundle_put(void *ctx, const void *data, size_t len, struct err *err)
{
    struct bundle_writer *w = ctx;

    sha256_add(&w->sum, data, len);
    return zstd_write(w->out, data, len, err);
}

int bundle_end(struct bundle_writer *w, struct err *err)
{
    const struct stat st = {.st_mode = S_IFREG | 0444, .st_size = DISK_DIGEST_MAX - 1};
    static const char zeros[3 * TAR_BLOCK];
    unsigned char digest[32];
    char text[DISK_DIGEST_MAX];
    struct buf header;
    int rc;

    buf_init(&header, 4096);
    tar_put_header(&header, TAR_FILE, BUNDLE_DIGEST, NULL, &st);
    rc = bundle_put(w, buf_str(&header), header.len, err);
    buf_fini(&header);
    sha256_end(&w->sum, digest);
    digest_text(digest, text);
    if (rc == SP_OK)
        rc = zstd_write(w->out, text, DISK_DIGEST_MAX - 1, err);
    if (rc == SP_OK) /* the rest of its block, and the end of the archive */
        rc = zstd_write(w->out, zeros, sizeof(zeros) - (DISK_DIGEST_MAX - 1), err);
    return rc == SP_OK ? zstd_writer_end(w->out, err) : rc;
}

void bundle_free(struct bundle_writer *w)
{
    zstd_writer_free(w->out);
    w->out = NULL;
}

/* --- reading --- */

static bool take_head(const struct json *o, struct bundle_head *ret)
{
    const char *format = json_str(json_get(o, "format"));
    const struct json *base = json_get(o, "base");
    uint64_t version;

    if (base != NULL && !json_is_null(base) &&
        !json_take_str(o, "base", ret->base, sizeof(ret->base)))
        return false;
    return format != NULL && strcmp(format, BUNDLE_FORMAT) == 0 &&
           json_u64(json_get(o, "version"), &version) && version == BUNDLE_VERSION &&
           json_u64(json_get(o, "bytes"), &ret->bytes) && ret->bytes < COUNT_MAX &&
           json_u64(json_get(o, "files"), &ret->files) && ret->files < COUNT_MAX / 65536;
}

int bundle_read_head(int fd, struct sha256 *sum, struct bundle_head *ret, struct err *err)
{
    unsigned char frame[BUNDLE_FRAME];
    AUTO_FREE char *text = xcalloc(1, BUNDLE_HEAD_MAX + 1);
    struct json_doc *doc;
    bool is_good;
    size_t len;

    if (!file_read_exact(fd, frame, sizeof(frame), start_is_stopped) ||
        (len = bundle_head_len(frame)) == 0 || !file_read_exact(fd, text, len, start_is_stopped))
        return err_set(err, SP_PROTOCOL, "this is no snapshot that was exported");
    doc = json_parse(text, len, BUNDLE_HEAD_MAX, err);
    is_good = doc != NULL && take_head(json_root(doc), ret);
    (void) json_doc_free(doc);
    sha256_add(sum, text, len);
    return is_good ? SP_OK
                   : err_set(err, SP_PROTOCOL,
                             "the head of the file is malformed, or of another version");
}

int bundle_check_digest(struct tar_reader *reader, uint64_t size, const struct sha256 *read_sum,
                        struct err *err)
{
    struct sha256 sum = *read_sum;
    char said[DISK_DIGEST_MAX] = "";
    char found[DISK_DIGEST_MAX];
    unsigned char digest[32];
    size_t have = 0;

    sha256_end(&sum, digest);
    digest_text(digest, found);
    while (size == sizeof(said) - 1 && have < sizeof(said) - 1) {
        ssize_t n = tar_reader_data(reader, said + have, sizeof(said) - 1 - have);

        if (n <= 0)
            return err_set(err, SP_PROTOCOL, "the file is cut");
        have += (size_t) n;
    }
    if (strcmp(said, found) != 0)
        return err_set(err, SP_PROTOCOL, "the file is damaged: its digest is %.71s, it says %.71s",
                       found, have > 0 ? said : "nothing");
    return SP_OK;
}
