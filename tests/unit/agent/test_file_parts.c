/* The parts of the file API that need no file: base64, multipart, globs, patterns, ranges. */
#include <stdio.h>
#include <string.h>

#include "agent/file/byte_range.h"
#include "agent/file/glob.h"
#include "agent/file/multipart.h"
#include "agent/file/regex.h"
#include "base/base64.h"
#include "tests/lib/unit.h"

/* --- base64 --- */

static void check_base64(const char *text, const char *bytes, size_t len)
{
    struct buf out;

    buf_init(&out, 1024);
    assert_true(base64_decode(text, strlen(text), &out));
    assert_int_equal(out.len, len);
    assert_memory_equal(buf_str(&out), bytes, len);
    buf_fini(&out);
}

static void test_base64(void **state)
{
    static const char *const bad[] = {
        "A", "AAAAA", "QQ=", "QQ===", "Q!==", "QUJ=D", "====", "QUI=="};

    (void) state;
    check_base64("", "", 0);
    check_base64("QQ==", "A", 1);
    check_base64("QUI=", "AB", 2);
    check_base64("QUJD", "ABC", 3);
    check_base64("QU JD\r\nRA", "ABCD", 4);
    check_base64("AP/+", "\0\xff\xfe", 3);
    check_base64("AP_-", "\0\xff\xfe", 3);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct buf out;

        buf_init(&out, 1024);
        assert_false(base64_decode(bad[i], strlen(bad[i]), &out));
        buf_fini(&out);
    }
}

static void test_base64_over_the_limit(void **state)
{
    struct buf out;

    (void) state;
    buf_init(&out, 4);
    assert_true(base64_decode("QUJDREVGRw==", 12, &out));
    assert_true(buf_failed(&out));
    buf_fini(&out);
}

/* --- multipart --- */

struct seen {
    struct buf text; /* "name/filename:data;" */
};

static void on_part(void *ctx, const char *name, const char *filename)
{
    struct seen *s = ctx;

    buf_printf(&s->text, "%s/%s:", name, filename);
}

static void on_data(void *ctx, const char *data, size_t len)
{
    struct seen *s = ctx;

    buf_append(&s->text, data, len);
}

static void on_part_end(void *ctx)
{
    struct seen *s = ctx;

    buf_putc(&s->text, ';');
}

/* Feeds in pieces of `step`; the code, and what was seen in s. */
static int feed(struct seen *s, const char *type, const char *body, size_t step)
{
    struct multipart m = {
        .on_part = on_part, .on_data = on_data, .on_part_end = on_part_end, .ctx = s};
    size_t len = strlen(body);
    int rc = multipart_init(&m, type, NULL);

    buf_init(&s->text, 65536);
    for (size_t i = 0; rc == SP_OK && i < len; i += step)
        rc = multipart_feed(&m, body + i, MIN_OF(step, len - i), NULL);
    if (rc == SP_OK)
        rc = multipart_finish(&m, NULL);
    multipart_fini(&m);
    return rc;
}

static const char type_b[] = "multipart/form-data; boundary=b";

static void test_multipart_every_split(void **state)
{
    static const char body[] =
        "preamble\r\n--b\r\n"
        "Content-Disposition: form-data; name=\"path\"\r\n\r\n/tmp/x\r\n"
        "--b  \r\nX: y\r\n"
        "content-disposition: form-data; filename=\"a \\\"q\\\".txt\"; name=file\r\n"
        "\r\nl1\r\n--l2\r\n\r\r\n--\r\n--c\r\r\n\r\n--b--\r\nepilogue";
    static const char want[] = "path/:/tmp/x;file/a \"q\".txt:l1\r\n--l2\r\n\r\r\n--\r\n--c\r\r\n;";

    (void) state;
    for (size_t step = 1; step <= sizeof(body); step++) {
        struct seen s;

        assert_int_equal(feed(&s, type_b, body, step), SP_OK);
        assert_string_equal(buf_str(&s.text), want);
        buf_fini(&s.text);
    }
}

static void test_multipart_first_boundary_at_once_and_empty_part(void **state)
{
    struct seen s;

    (void) state;
    assert_int_equal(feed(&s, "Multipart/Form-Data; charset=x; boundary=\"b\"",
                          "--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n\r\n--b--", 1),
                     SP_OK);
    assert_string_equal(buf_str(&s.text), "f/:;");
    buf_fini(&s.text);
}

static void test_multipart_refused(void **state)
{
    static const char *const types[] = {
        "text/plain", "multipart/form-data",
        "multipart/form-data; boundary=", "multipart/form-data; boundary",
        "multipart/form-data; a; b"};
    static const char *const bodies[] = {
        "", "--b", "--b\r\n\r\nx", "--bx\r\n\r\n", "--b\r\n\r\nx\r\n--b\r\n", "no boundary at all"};
    struct seen s;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        assert_int_equal(feed(&s, types[i], "--b--", 1), SP_INVALID_FIELD);
        buf_fini(&s.text);
    }
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        assert_int_equal(feed(&s, type_b, bodies[i], 3), SP_BAD_REQUEST);
        buf_fini(&s.text);
    }
}

static void test_multipart_headers_are_bounded(void **state)
{
    char body[MULTIPART_HEADERS_MAX + 64];
    struct seen s;

    (void) state;
    memset(body, 'x', sizeof(body) - 1);
    body[sizeof(body) - 1] = '\0';
    memcpy(body, "--b\r\n", 5);
    assert_int_equal(feed(&s, type_b, body, 1000), SP_BAD_REQUEST);
    buf_fini(&s.text);
}

/* --- globs --- */

static bool globs(const char *pattern, const char *path, unsigned flags)
{
    struct glob g;
    bool is_match;

    assert_int_equal(glob_init(&g, pattern, flags, NULL), SP_OK);
    is_match = glob_match(&g, path);
    glob_fini(&g);
    return is_match;
}

static void test_glob(void **state)
{
    (void) state;
    assert_true(globs("*.py", "a.py", 0));
    assert_false(globs("*.py", "d/a.py", 0));
    assert_true(globs("**/*.py", "a.py", 0));
    assert_true(globs("**/*.py", "d/e/a.py", 0));
    assert_true(globs("d/**", "d/e/f", 0));
    assert_true(globs("d/**/f", "d/f", 0));
    assert_true(globs("d/**/e/**/f", "d/x/e/y/e/z/f", 0));
    assert_false(globs("d/**/e", "d/x/f", 0));
    assert_true(globs("./a?c", "abc", 0));
    assert_true(globs("a?c",
                      "a\xc3\xa9"
                      "c",
                      0));
    assert_false(globs("a?c", "ac", 0));
    assert_true(globs("[a-c]x[!0-9]", "bxq", 0));
    assert_false(globs("[a-c]x[!0-9]", "bx7", 0));
    assert_true(globs("[]x]", "]", 0));
    assert_true(globs("[ab", "[ab", 0));
    assert_true(globs("[\xc3\xa9]", "\xc3\xa9", 0));
    assert_true(globs("\\*", "*", 0));
    assert_false(globs("\\*", "a", 0));
    assert_true(globs("*", "abc", 0));
    assert_true(globs("A*", "abc", GLOB_ICASE));
}

static void test_glob_hidden(void **state)
{
    (void) state;
    assert_false(globs("*", ".git", 0));
    assert_true(globs("*", ".git", GLOB_HIDDEN));
    assert_true(globs(".*", ".git", 0));
    assert_false(globs("**/*.c", ".git/a.c", 0));
    assert_true(globs("**/*.c", ".git/a.c", GLOB_HIDDEN));
    assert_false(globs("**", "a/.b/c", 0));
}

static void test_glob_braces(void **state)
{
    struct glob g;
    char many[512] = "";

    (void) state;
    assert_true(globs("*.{ts,tsx}", "a.tsx", 0));
    assert_true(globs("{a,b{c,d}}x", "bdx", 0));
    assert_false(globs("{a,b{c,d}}x", "bx", 0));
    assert_true(globs("{a}", "{a}", 0));
    assert_true(globs("{,x}a", "a", 0));
    for (int i = 0; i < 8; i++)
        memcpy(many + strlen(many), "{a,b}", 6);
    assert_int_equal(glob_init(&g, many, 0, NULL), SP_INVALID_FIELD);
    assert_int_equal(glob_init(&g, "", 0, NULL), SP_INVALID_FIELD);
}

/* Exponential matchers need centuries for this. */
static void test_glob_is_not_exponential(void **state)
{
    char name[251];

    (void) state;
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_false(globs("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", name, 0));
    for (size_t i = 1; i < sizeof(name) - 1; i += 2)
        name[i] = '/';
    name[sizeof(name) - 2] = 'c';
    assert_false(globs("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/b", name, 0));
}

/* --- patterns --- */

static int regex(const char *pattern, const char *line, unsigned flags)
{
    struct file_regex r;
    int rc = file_regex_init(&r, pattern, flags, NULL);

    if (rc != SP_OK)
        return rc;
    rc = file_regex_match(&r, line, strlen(line));
    file_regex_fini(&r);
    return rc;
}

static void test_regex(void **state)
{
    static const struct {
        const char *pattern;
        const char *line;
        int want;
    } cases[] = {
        {"def \\w+\\(", "  def foo(x):", 1},
        {"^\\d{3}-\\d+$", "123-4", 1},
        {"^\\d{3}-\\d+$", "12-4", 0},
        {"[\\w.-]+@[\\w-]+\\.[a-z]{2,}", "x a.b@c-d.org", 1},
        {"(?:foo|bar)+?baz", "foobarbaz", 1},
        {"(?P<n>a)(?<m>b)", "ab", 1},
        {"(?i)HELLO", "say hello", 1},
        {"\\bword\\b", "a word here", 1},
        {"\\bword\\b", "swords", 0},
        {"a\\tb", "a\tb", 1},
        {"[\\]\\-^]", "]", 1},
        {"[\\]\\-^]", "-", 1},
        {"[\\]\\-^]", "^", 1},
        {"[\\]\\-^]", "\\", 0},
        {"[^\\]]", "]", 0},
        {"[\\^]", "^", 1},
        {"[\\^]", "a", 0},
        {"[a\\[]", "[", 1},
        {"x{,}", "x{,}", 1},
        {"{}", "{}", 1},
        {"a}b]", "a}b]", 1},
        {"[\xc3\xa9x]+$", "\xc3\xa9", 1},
        {"^[\xc3\xa9x]+$", "\xc3\xa8", 0},
        {"^\xc3\xa9+$", "\xc3\xa9\xc3\xa9", 1},
        {"[[:digit:]]", "7", 1},
        {"\\.\\*\\$\\/\\<\\\"", ".*$/<\"", 1},
        {"a.*?b", "axxb", 1},
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int got = regex(cases[i].pattern, cases[i].line, 0);

        if (got != cases[i].want)
            fail_msg("'%s' on '%s': %d", cases[i].pattern, cases[i].line, got);
    }
    assert_int_equal(regex("a.b", "A.B", REGEX_FIXED | REGEX_ICASE), 1);
    assert_int_equal(regex("a.b", "axb", REGEX_FIXED), 0);
    assert_int_equal(regex("HeLLo", "hello", REGEX_ICASE), 1);
}

static void test_regex_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "(a)\\1",
                                      "(?=x)",
                                      "(?!x)",
                                      "(?<=x)",
                                      "(",
                                      ")",
                                      "[a",
                                      "a\\",
                                      "\\q",
                                      "((a{1,255}){1,255}){1,255}",
                                      "(((((a{9}){9}){9}){9}){9}){9}",
                                      "a{100000}",
                                      "[\xc3\xa0-\xc3\xaf]",
                                      "[^\xc3\xa0]"};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (regex(bad[i], "x", 0) != SP_INVALID_FIELD)
            fail_msg("'%s' was taken", bad[i]);
    }
}

/* Each byte of such a line makes a new state; the library keeps them all. */
static void test_regex_hostile(void **state)
{
    static char line[32 * 1024 + 1];
    struct file_regex r;
    uint32_t seed = 1;

    (void) state;
    for (size_t i = 0; i < sizeof(line) - 1; i++) {
        seed = seed * 1664525 + 1013904223;
        line[i] = (seed >> 24 & 1) != 0 ? 'a' : 'b';
    }
    assert_int_equal(file_regex_init(&r, "(a|b)*a(a|b){20}c", 0, NULL), SP_OK);
    assert_false(file_regex_match(&r, line, sizeof(line) - 1));
    file_regex_fini(&r);
    assert_int_equal(file_regex_init(&r, "((a*)*)*((a|b)*)*c", 0, NULL), SP_OK);
    assert_false(file_regex_match(&r, line, sizeof(line) - 1));
    file_regex_fini(&r);
}

/* --- ranges --- */

static void test_byte_range(void **state)
{
    static const struct {
        const char *header;
        uint64_t size;
        bool is_ok;
        bool is_partial;
        uint64_t start;
        uint64_t end;
    } cases[] = {
        {"", 10, true, false, 0, 10},
        {"bytes=0-3", 10, true, true, 0, 4},
        {"bytes=4-", 10, true, true, 4, 10},
        {"bytes=-3", 10, true, true, 7, 10},
        {"bytes=-30", 10, true, true, 0, 10},
        {"bytes=5-100", 10, true, true, 5, 10},
        {"bytes=10-", 10, false, false, 0, 10},
        {"bytes=-0", 10, false, false, 0, 10},
        {"bytes=3-1", 10, true, false, 0, 10},
        {"bytes=0-1,3-4", 10, true, false, 0, 10},
        {"bytes=-", 10, true, false, 0, 10},
        {"lines=0-1", 10, true, false, 0, 10},
        {"bytes=99999999999999999999-", 10, true, false, 0, 10},
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct byte_range r;

        assert_int_equal(byte_range_parse(&r, cases[i].header, cases[i].size), cases[i].is_ok);
        assert_int_equal(r.is_partial, cases[i].is_partial);
        assert_int_equal(r.start, cases[i].start);
        assert_int_equal(r.end, cases[i].end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_base64_over_the_limit),
        cmocka_unit_test(test_multipart_every_split),
        cmocka_unit_test(test_multipart_first_boundary_at_once_and_empty_part),
        cmocka_unit_test(test_multipart_refused),
        cmocka_unit_test(test_multipart_headers_are_bounded),
        cmocka_unit_test(test_glob),
        cmocka_unit_test(test_glob_hidden),
        cmocka_unit_test(test_glob_braces),
        cmocka_unit_test(test_glob_is_not_exponential),
        cmocka_unit_test(test_regex),
        cmocka_unit_test(test_regex_refused),
        cmocka_unit_test(test_regex_hostile),
        cmocka_unit_test(test_byte_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
