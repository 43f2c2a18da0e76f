/* Any bytes through the reader of tar archives, in pieces of any length. What it returns must hold what it promises:
 * known types, names with an end, data only of files and never more than was announced. What it accepts and the
 * writer can express is written and read back the same. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/tar_read.h"
#include "base/tar_write.h"

enum { INPUT_MAX = 256 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct source {
    const uint8_t *data;
    size_t left;
    size_t piece;
};

static ssize_t read_source(void *ctx, void *dst, size_t cap)
{
    struct source *s = ctx;
    size_t n = MIN_OF(MIN_OF(cap, s->left), s->piece);

    assert(cap > 0);
    if (n > 0)
        memcpy(dst, s->data, n);
    s->data += n;
    s->left -= n;
    s->piece = s->piece % 977 + 1;
    return (ssize_t) n;
}

static void check_again(const struct tar_entry *e)
{
    static struct tar_entry again;
    struct stat st = {.st_mode = e->mode,
                      .st_size = (off_t) e->size,
                      .st_uid = (uid_t) (e->uid & UINT32_MAX),
                      .st_gid = (gid_t) (e->gid & UINT32_MAX)};
    struct tar_reader r;
    struct source source = {.piece = 100};
    struct buf text;
    size_t len = strlen(e->name);
    bool is_dir = e->type == TAR_DIRECTORY;

    if (len == 0 || (e->name[len - 1] == '/') != is_dir || len > TAR_PATH_MAX - 2)
        return;
    buf_init(&text, 64 * 1024);
    st.st_mtim.tv_sec = e->mtime_s;
    tar_put_header(&text, e->type, e->name, e->link[0] != '\0' ? e->link : NULL, &st);
    assert(!buf_failed(&text) && text.len % TAR_BLOCK == 0);
    source.data = (const uint8_t *) buf_str(&text);
    source.left = text.len;
    tar_reader_init(&r, read_source, &source);
    assert(tar_reader_next(&r, &again) == TAR_ENTRY);
    assert(again.type == e->type && again.size == e->size && again.mode == e->mode);
    assert(again.uid == st.st_uid && again.gid == st.st_gid && again.mtime_s == e->mtime_s);
    assert(strncmp(again.name, e->name, len) == 0 && strcmp(again.link, e->link) == 0);
    tar_reader_fini(&r);
    buf_fini(&text);
}

/* Reads all of it. */
static bool on_record(void *ctx UNUSED, const char *key, size_t key_len, const char *value,
                      size_t len)
{
    unsigned sum = 0;

    for (size_t i = 0; i < key_len; i++)
        sum += (unsigned char) key[i];
    for (size_t i = 0; i < len; i++)
        sum += (unsigned char) value[i];
    return sum % 17 != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tar_entry e;
    struct source source = {.data = data, .left = size, .piece = size % 600 + 1};
    struct tar_reader r;
    enum tar_result result;

    if (size > INPUT_MAX)
        return 0;
    tar_reader_init(&r, read_source, &source);
    r.on_record = size % 2 == 0 ? on_record : NULL;
    while ((result = tar_reader_next(&r, &e)) == TAR_ENTRY) {
        char scrap[300];
        uint64_t sum = 0;
        ssize_t n;

        assert(e.type >= TAR_FILE && e.type <= TAR_FIFO);
        assert(strnlen(e.name, sizeof(e.name)) < sizeof(e.name));
        assert(strnlen(e.link, sizeof(e.link)) < sizeof(e.link));
        assert(e.type == TAR_FILE || e.size == 0);
        assert(e.mode <= 07777 && e.mtime_ns < 1000000000);
        check_again(&e);
        if (e.size % 3 == 0) /* others are skipped */
            while ((n = tar_reader_data(&r, scrap, sizeof(scrap))) > 0)
                sum += (uint64_t) n;
        assert(sum <= e.size);
    }
    assert(result != TAR_BAD || r.problem != NULL);
    assert(result != TAR_END || source.left == 0);
    tar_reader_fini(&r);
    return 0;
}
