/* Layers of a stranger's image: what other readers could see in them beside what we see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/tar_write.h"
#include "helper/layer_check.h"

struct source {
    const char *data;
    size_t left;
};

static ssize_t read_source(void *ctx, void *dst, size_t cap)
{
    struct source *s = ctx;
    size_t n = MIN_OF(cap, s->left);

    if (n > 0)
        memcpy(dst, s->data, n);
    s->data += n;
    s->left -= n;
    return (ssize_t) n;
}

static void put(struct buf *b, char type, const char *name, uint64_t size)
{
    const struct stat st = {.st_mode = 0100644, .st_size = (off_t) size};

    tar_put_header(b, type, name, type == TAR_SYMLINK ? "x" : NULL, &st);
}

/* Of the header that begins there: the type and the size as they are written. */
static void patch(struct buf *b, size_t at, char type, const char *size)
{
    struct tar_header *h = (void *) (b->data + at);

    h->type = type;
    if (size != NULL)
        memcpy(h->size, size, sizeof(h->size));
    (void) snprintf(h->sum, sizeof(h->sum), "%06o", tar_sum(h));
}

static void data(struct buf *b, const char *text, size_t len)
{
    static const char zeros[TAR_BLOCK];

    buf_append(b, text, len);
    buf_append(b, zeros, tar_padding(len));
}

static void check(struct buf *b, const char *problem)
{
    struct source source = {.data = b->data, .left = b->len};
    struct err err = {.msg = ""};
    int rc = layer_check(read_source, &source, &err);

    assert_int_equal(rc, problem == NULL ? SP_OK : SP_PROTOCOL);
    if (problem != NULL)
        assert_non_null(strstr(err.msg, problem));
    buf_reset(b);
}

static void put_pax(struct buf *b, const char *records)
{
    size_t at = b->len;

    put(b, TAR_FILE, "pax", strlen(records));
    patch(b, at, TAR_PAX, NULL);
    data(b, records, strlen(records));
}

static void test_good(void **state)
{
    static const char zeros[2 * TAR_BLOCK];
    struct buf b;

    (void) state;
    buf_init(&b, 1 << 20);
    put(&b, TAR_DIRECTORY, "d", 0);
    put(&b, TAR_FILE, "d/f", 5);
    data(&b, "hello", 5);
    put(&b, TAR_SYMLINK, "link", 0);
    put_pax(&b, "16 SCHILY.x=abc\n");
    put(&b, TAR_FILE, "g", 0);
    tar_put_end(&b);
    check(&b, NULL);
    buf_append(&b, zeros, sizeof(zeros)); /* how Docker writes an empty one */
    check(&b, NULL);
    buf_fini(&b);
}

static void test_sizes(void **state)
{
    struct buf b;

    (void) state;
    buf_init(&b, 1 << 20);
    put(&b, TAR_FILE, "f", 0);
    patch(&b, 0, TAR_FILE,
          "\0"
          "\0"
          "0000001000"); /* 512 for who skips what is before the digits */
    check(&b, "size");
    put(&b, TAR_FILE, "f", 0);
    patch(&b, 0, TAR_FILE,
          "0"
          "\0"
          "0000001000");
    check(&b, "size");
    put(&b, TAR_FILE, "f/", 512); /* a directory, or a file with data */
    data(&b, "x", 1);
    check(&b, "no file has data");
    put(&b, TAR_FILE, "f", 512);
    patch(&b, 0, TAR_GNU_DIRECTORY, NULL);
    data(&b, "x", 1);
    check(&b, "no file has data");
    put(&b, TAR_FILE, "f", 512);
    patch(&b, 0, TAR_GNU_SPARSE, NULL);
    check(&b, "sparse");
    put_pax(&b, "22 GNU.sparse.size=99\n");
    put(&b, TAR_FILE, "f", 0);
    check(&b, "sparse");
    buf_fini(&b);
}

static void test_headers_before(void **state)
{
    struct buf b;

    (void) state;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 3; i++) { /* others forget the size, or give it to what is between */
        put_pax(&b, "12 size=512\n");
        if (i == 0) {
            put_pax(&b, "12 gid=1000\n");
        } else {
            size_t at = b.len;

            put(&b, TAR_FILE, "between", 0);
            patch(&b, at, i == 1 ? TAR_PAX_GLOBAL : TAR_GNU_VOLUME, NULL);
        }
        put(&b, TAR_FILE, "f", 0);
        data(&b, "x", 1);
        tar_put_end(&b);
        check(&b, "contradict");
    }
    buf_fini(&b);
}

static void test_compressed(void **state)
{
    static const char xz[] = "\xfd"
                             "7zXZ"; /* in two: 7 would belong to the number */
    static const char *const firsts[] = {"\x1f\x8b\x08", "BZh9", "\x28\xb5\x2f\xfd",
                                         "\x5a\x2a\x4d\x18", xz};
    struct buf b;

    (void) state;
    buf_init(&b, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(firsts); i++) { /* archives, too */
        put(&b, TAR_FILE, firsts[i], 0);
        tar_put_end(&b);
        check(&b, "compressed");
    }
    buf_puts(&b, "no archive");
    check(&b, "no tar archive");
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_headers_before),
        cmocka_unit_test(test_compressed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
