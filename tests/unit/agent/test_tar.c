/* Tar archives without files: what the writer writes, what the reader makes of it; and the table of watched
 * directories. */
#include <stdio.h>
#include <string.h>

#include "agent/file/watch_nodes.h"
#include "base/tar_read.h"
#include "base/tar_write.h"
#include "tests/lib/unit.h"

struct source {
    const char *data;
    size_t left;
    size_t piece;
};

static ssize_t read_source(void *ctx, void *dst, size_t cap)
{
    struct source *s = ctx;
    size_t n = MIN_OF(MIN_OF(cap, s->left), s->piece);

    memcpy(dst, s->data, n);
    s->data += n;
    s->left -= n;
    return (ssize_t) n;
}

static void check_entry(char type, const char *name, const char *link, const struct stat *st,
                        size_t blocks)
{
    static struct tar_entry e;
    struct tar_reader r;
    struct buf text;
    struct source source = {.piece = 7};

    buf_init(&text, 1024 * 1024);
    tar_put_header(&text, type, name, link, st);
    assert_false(buf_failed(&text));
    assert_int_equal(text.len, blocks * TAR_BLOCK);
    source.data = buf_str(&text);
    source.left = text.len;
    tar_reader_init(&r, read_source, &source);
    assert_int_equal(tar_reader_next(&r, &e), TAR_ENTRY);
    assert_int_equal(e.type, type);
    assert_memory_equal(e.name, name, strlen(name));
    assert_string_equal(e.name + strlen(name), type == TAR_DIRECTORY ? "/" : "");
    assert_string_equal(e.link, link != NULL ? link : "");
    assert_int_equal(e.size, type == TAR_FILE ? st->st_size : 0);
    assert_int_equal(e.mode, st->st_mode & 07777);
    assert_int_equal(e.uid, st->st_uid);
    assert_int_equal(e.gid, st->st_gid);
    assert_int_equal(e.mtime_s, st->st_mtim.tv_sec);
    tar_reader_fini(&r);
    buf_fini(&text);
}

static void test_headers(void **state)
{
    struct stat st = {.st_mode = 0100644, .st_uid = 1000, .st_gid = 07777777};
    char name[3001];

    (void) state;
    st.st_mtim.tv_sec = 1700000000;
    check_entry(TAR_FILE, "a", NULL, &st, 1);
    check_entry(TAR_DIRECTORY, "a/b", NULL, &st, 1);
    check_entry(TAR_SYMLINK, "a", "../../b", &st, 1);
    st.st_size = 077777777777;
    check_entry(TAR_FILE, "a", NULL, &st, 1);
    st.st_size++;
    check_entry(TAR_FILE, "a", NULL, &st, 3);
    st.st_size = INT64_MAX;
    st.st_uid = UINT32_MAX - 1;
    st.st_gid = 010000000;
    check_entry(TAR_FILE, "a", NULL, &st, 3);
    /* Lengths at which the length of a record gets another digit. */
    for (size_t len = 1; len < sizeof(name); len += len < 1000 ? 1 : 97) {
        struct stat small = {.st_mode = 0100600};
        size_t record = len + strlen(" path=\n");

        memset(name, 'n', len);
        name[len] = '\0';
        record += record + 2 < 100 ? 2 : record + 3 < 1000 ? 3 : 4;
        check_entry(TAR_FILE, name, NULL, &small, len <= 100 ? 1 : 2 + (record + 511) / 512);
    }
}

static enum tar_result read_only_one(const char *data, size_t len, const char **ret_problem)
{
    static struct tar_entry e;
    struct source source = {.data = data, .left = len, .piece = 512};
    struct tar_reader r;
    enum tar_result result;

    tar_reader_init(&r, read_source, &source);
    do
        result = tar_reader_next(&r, &e);
    while (result == TAR_ENTRY);
    *ret_problem = r.problem;
    tar_reader_fini(&r);
    return result;
}

static void test_ends(void **state)
{
    struct stat st = {.st_mode = 0100644, .st_size = 700};
    const char *problem = NULL;
    struct buf text;

    (void) state;
    buf_init(&text, 64 * 1024);
    tar_put_header(&text, TAR_FILE, "f", NULL, &st);
    for (unsigned i = 0; i < 1024; i++)
        buf_putc(&text, 'x');
    assert_int_equal(read_only_one(buf_str(&text), text.len, &problem), TAR_END);
    tar_put_end(&text);
    buf_puts(&text, "what is behind the end does not matter");
    assert_int_equal(read_only_one(buf_str(&text), text.len, &problem), TAR_END);
    for (size_t cut = 0; cut < 1536; cut += 100) {
        assert_int_equal(read_only_one(buf_str(&text), cut, &problem), TAR_BAD);
        assert_non_null(problem);
    }
    text.data[0] = 'g'; /* its sum is wrong now */
    assert_int_equal(read_only_one(buf_str(&text), text.len, &problem), TAR_BAD);
    buf_fini(&text);
}

struct seen {
    struct source source;
    char text[256];
    bool is_refused;
};

static ssize_t read_seen(void *ctx, void *dst, size_t cap)
{
    return read_source(&((struct seen *) ctx)->source, dst, cap);
}

static bool on_record(void *ctx, const char *key, size_t key_len, const char *value, size_t len)
{
    struct seen *s = ctx;
    size_t at = strlen(s->text);

    (void) snprintf(s->text + at, sizeof(s->text) - at, "%.*s:%zu:%u ", (int) key_len, key, len,
                    len > 0 ? (unsigned char) value[len - 1] : 0U);
    return !s->is_refused;
}

/* Records that the reader does not know are somebody else's, with any bytes in them; the others are its own. */
static void test_records(void **state)
{
    static const char value[] = {'a', '\0', '\n', '=', '\x7f'};
    static struct tar_entry e;
    struct stat st = {.st_mode = 0100644, .st_size = 3};
    struct seen seen = {.source = {.piece = 5}};
    struct tar_reader r;
    struct buf records;
    struct buf text;

    (void) state;
    buf_init(&records, 4096);
    buf_init(&text, 64 * 1024);
    tar_put_record(&records, "SCHILY.xattr.user.x", value, sizeof(value));
    tar_put_record(&records, "mtime", "7.25", 4);
    tar_put_record(&records, "GNU.sparse.realsize", "99", 2);
    tar_put_entry(&text, TAR_FILE, "f", NULL, &st, &records);
    for (int i = 0; i < 3; i++) { /* taken, refused, and without anybody who wants them */
        seen = (struct seen){.source = {.data = buf_str(&text), .left = text.len, .piece = 5},
                             .is_refused = i == 1};
        tar_reader_init(&r, read_seen, &seen);
        r.on_record = i < 2 ? on_record : NULL;
        assert_int_equal(tar_reader_next(&r, &e), i == 0 ? TAR_ENTRY : TAR_BAD);
        tar_reader_fini(&r);
        if (i == 0) {
            assert_string_equal(seen.text, "SCHILY.xattr.user.x:5:127 GNU.sparse.realsize:2:57 ");
            assert_int_equal(e.mtime_s, 7);
            assert_int_equal(e.mtime_ns, 250000000);
        }
    }
    buf_fini(&records);
    buf_fini(&text);
}

static void count_drop(void *ctx, const struct watch_node *node)
{
    assert_int_equal(node->children.len, 0);
    (*(unsigned *) ctx)++;
}

static void check_path(const struct watch_node *dir, const char *name, const char *want)
{
    char path[64];

    assert_true(watch_nodes_path(dir, "/top", name, path, sizeof(path)));
    assert_string_equal(path, want);
    assert_false(watch_nodes_path(dir, "/top", name, path, strlen(want)));
    assert_true(watch_nodes_path(dir, "/top", name, path, strlen(want) + 1));
}

static void test_watch_nodes(void **state)
{
    struct watch_nodes t;
    struct watch_node *root;
    struct watch_node *a;
    struct watch_node *b;
    struct watch_node *c;
    char path[64];
    unsigned dropped = 0;

    (void) state;
    watch_nodes_init(&t, 4);
    root = watch_nodes_add(&t, NULL, "", 1);
    a = watch_nodes_add(&t, root, "a", 2);
    b = watch_nodes_add(&t, a, "b", 3);
    c = watch_nodes_add(&t, b, "c", 4);
    check_path(c, "f", "/top/a/b/c/f");
    check_path(root, "f", "/top/f");
    assert_true(watch_nodes_path(root, "/", "", path, sizeof(path)));
    assert_string_equal(path, "/");
    assert_true(watch_nodes_path(root, "/", "f", path, sizeof(path)));
    assert_string_equal(path, "/f");
    assert_ptr_equal(watch_nodes_find(&t, 3), b);
    assert_ptr_equal(watch_nodes_child(a, "b"), b);
    watch_nodes_move(a, c, "x"); /* below itself: it stays */
    check_path(c, "f", "/top/a/b/c/f");
    watch_nodes_move(b, root, "z");
    check_path(c, "f", "/top/z/c/f");
    assert_null(watch_nodes_child(a, "b"));
    watch_nodes_drop(&t, b, count_drop, &dropped);
    assert_int_equal(dropped, 2);
    assert_null(watch_nodes_find(&t, 4));
    assert_ptr_equal(watch_nodes_find(&t, 2), a);
    watch_nodes_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_watch_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
