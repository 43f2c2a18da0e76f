/* Strings, numbers and errors at the edges of their ranges. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "base/err.h"
#include "base/str.h"
#include "tests/lib/unit.h"

static void test_copy(void **state)
{
    char dst[4] = "xyz";

    (void) state;
    assert_true(str_copy(dst, sizeof(dst), "abc"));
    assert_string_equal(dst, "abc");
    assert_false(str_copy(dst, sizeof(dst), "abcd"));
    assert_string_equal(dst, "");
    assert_true(str_copy_n(dst, sizeof(dst), "abcd", 2));
    assert_string_equal(dst, "ab");
    assert_true(str_copy(dst, 1, ""));
    assert_string_equal(dst, "");
    str_copy_cut(dst, sizeof(dst), "abcdef");
    assert_string_equal(dst, "abc");
    str_copy_cut(dst, sizeof(dst), "a");
    assert_string_equal(dst, "a");
}

static void test_parse_u64(void **state)
{
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1x",
                                      "0x10",
                                      "1.0",
                                      "18446744073709551616",
                                      "99999999999999999999999",
                                      "/",
                                      ":",
                                      "\xb2"};
    uint64_t v = 77;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(str_parse_u64(bad[i], 0, UINT64_MAX, &v));
        assert_int_equal(v, 77);
    }
    assert_true(str_parse_u64("18446744073709551615", 0, UINT64_MAX, &v));
    assert_true(v == UINT64_MAX);
    assert_true(str_parse_u64("000", 0, 0, &v));
    assert_int_equal(v, 0);
    assert_true(str_parse_u64("5", 5, 5, &v));
    assert_false(str_parse_u64("4", 5, 6, &v));
    assert_false(str_parse_u64("7", 5, 6, &v));
}

static void test_hex64(void **state)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "0123456789abcde",
                                      "0123456789abcdef0",
                                      "0123456789ABCDEF",
                                      "0123456789abcdeg",
                                      "0x23456789abcdef"};
    char text[17];
    uint64_t v = 77;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(str_parse_hex64(bad[i], &v));
    assert_int_equal(v, 77);
    assert_true(str_parse_hex64("0123456789abcdef", &v));
    assert_true(v == 0x0123456789abcdefULL);
    str_hex64(text, v);
    assert_string_equal(text, "0123456789abcdef");
    str_hex64(text, UINT64_MAX);
    assert_string_equal(text, "ffffffffffffffff");
    assert_true(str_parse_hex64(text, &v));
    assert_true(v == UINT64_MAX);
    str_hex(text, "\x00\x7f\xff", 3);
    assert_string_equal(text, "007fff");
    str_hex(text, "", 0);
    assert_string_equal(text, "");
}

static void test_parse_size(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"512", 512},
                {"64k", 65536},
                {"64K", 65536},
                {"512M", 512ULL << 20},
                {"2g", 2ULL << 30},
                {"1T", 1ULL << 40},
                {"16777215T", 16777215ULL << 40},
                {"18446744073709551615", UINT64_MAX}};
    static const char *const bad[] = {"",   "k",    "1kb", "1 k",       "-1k",
                                      "1p", "1.5g", "k1",  "16777216T", "18014398509481984k"};
    uint64_t v = 77;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(str_parse_size(good[i].text, &v));
        assert_true(v == good[i].bytes);
    }
    v = 77;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(str_parse_size(bad[i], &v));
        assert_int_equal(v, 77);
    }
}

static void test_names(void **state)
{
    (void) state;
    assert_true(str_is_name("a", 1, ""));
    assert_true(str_is_name("Az09-_.", 7, "-_."));
    assert_false(str_is_name("", 8, "-"));
    assert_false(str_is_name("abc", 2, ""));
    assert_false(str_is_name("a b", 8, "-"));
    assert_false(str_is_name("a\n", 8, "-"));
    assert_false(str_is_name("caf\xc3\xa9", 8, "-"));
    assert_false(str_is_name("a/b", 8, "-"));
}

static void test_equal_secret(void **state)
{
    (void) state;
    assert_true(str_equal_secret("", ""));
    assert_true(str_equal_secret("abc", "abc"));
    assert_false(str_equal_secret("abc", "abd"));
    assert_false(str_equal_secret("abc", "bbc"));
    assert_false(str_equal_secret("abc", "ab"));
    assert_false(str_equal_secret("", "a"));
}

static void test_utf8(void **state)
{
    static const char *const good[] = {"a",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"",
                                      "\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2 ",
                                      "\xe0\x9f\xbf",
                                      "\xe2\x82",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf0\x90\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xfe"};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(str_utf8_len(good[i]), strlen(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(str_utf8_len(bad[i]), 0);
}

static void test_iso8601(void **state)
{
    char text[32];

    (void) state;
    str_iso8601(text, 0);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    str_iso8601(text, 1793838878123);
    assert_string_equal(text, "2026-11-05T00:34:38.123Z");
    str_iso8601(text, 951782399999); /* before a leap day */
    assert_string_equal(text, "2000-02-28T23:59:59.999Z");
    str_iso8601(text, UINT64_MAX); /* fits, whatever it says */
    assert_true(strlen(text) < sizeof(text));
}

/* A second before and after each midnight from 1970 to 2500. */
static void test_iso8601_every_day(void **state)
{
    char text[32];
    char expected[32];
    struct tm tm;

    (void) state;
    for (time_t s = 0; s < (time_t) 530 * 366 * 86400; s += 86400) {
        for (time_t at = s > 0 ? s - 1 : 0; at <= s + 1; at += 2) {
            assert_non_null(gmtime_r(&at, &tm));
            assert_true(strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S.007Z", &tm) > 0);
            str_iso8601(text, (uint64_t) at * 1000 + 7);
            assert_string_equal(text, expected);
        }
    }
}

static void test_err(void **state)
{
    struct err err = {0};
    char longer[400];

    (void) state;
    assert_int_equal(err_set(&err, SP_IO, "disk %d", 3), SP_IO);
    assert_int_equal(err.code, SP_IO);
    assert_string_equal(err.msg, "disk 3");
    assert_int_equal(err_wrap(&err, "pool '%s'", "small"), SP_IO);
    assert_string_equal(err.msg, "pool 'small': disk 3");
    assert_int_equal(err_sys(&err, SP_LOCKED, EACCES, "open '%s'", "x"), SP_LOCKED);
    assert_int_equal(err.sys, EACCES);
    assert_string_equal(err.msg, "open 'x': Permission denied");
    assert_int_equal(err_wrap(&err, "store"), SP_LOCKED);
    assert_int_equal(err.sys, EACCES);
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(err_sys(&err, SP_IO, EIO, "%s", longer), SP_IO);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    assert_int_equal(err_wrap(&err, "%s", longer), SP_IO);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    assert_int_equal(err_set(NULL, SP_IO, "nobody asks"), SP_IO);
    assert_int_equal(err_sys(NULL, SP_IO, EIO, "nobody asks"), SP_IO);
    (void) err_wrap(NULL, "nobody asks");
}

static void test_error_table(void **state)
{
    (void) state;
    assert_int_equal(SP_OK, 0);
    for (int i = 1; i < (int) SP_ERROR_INDEX_COUNT; i++) {
        const struct sp_error_info *info = sp_error_info(-i);

        assert_int_equal(info->code, -i);
        assert_int_equal(sp_error_from_name(info->name), -i); /* so the names are distinct */
        assert_true(info->text[0] != '\0');
        assert_true(info->http_status == 0 ||
                    (info->http_status >= 400 && info->http_status < 600));
    }
    assert_int_equal(sp_error_info(SP_OK)->http_status, 200);
    assert_int_equal(sp_error_info(1)->code, SP_INTERNAL);
    assert_int_equal(sp_error_info(-9999)->code, SP_INTERNAL);
    assert_int_equal(sp_error_from_name("no such error"), SP_INTERNAL);
}

/* Answers are written from sp_error_info(): an inner result that came so far would be called "internal". */
static void test_inner_results(void **state)
{
    (void) state;
    for (int code = ERR_INNER_TOP + 1; code < (int) ERR_INNER_END; code++) {
        assert_true(err_is_inner(code));
        assert_int_equal(sp_error_info(code)->code, SP_INTERNAL);
        assert_false(err_is_inner(err_for_caller(code)));
        assert_true(sp_error_info(err_for_caller(code))->http_status >= 400);
        assert_string_not_equal(err_text(code), sp_error_info(code)->text);
    }
    for (int i = 0; i < (int) SP_ERROR_INDEX_COUNT; i++) {
        assert_false(err_is_inner(-i));
        assert_int_equal(err_for_caller(-i), -i);
        assert_string_equal(err_text(-i), sp_error_info(-i)->text);
    }
    assert_false(err_is_inner(ERR_INNER_TOP));
    assert_false(err_is_inner(ERR_INNER_END));
    assert_int_equal(err_for_caller(ERR_BOX_DEAD), SP_SANDBOX_LOST);
    assert_int_equal(err_for_caller(ERR_TAKEN), SP_SPEC_CONFLICT);
    assert_int_equal(err_for_caller(ERR_BUSY), SP_SPEC_CONFLICT);
    assert_int_equal(err_for_caller(ERR_NOTHING_RUNS), SP_JOB_ENDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_parse_u64),
        cmocka_unit_test(test_hex64),
        cmocka_unit_test(test_parse_size),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_equal_secret),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_iso8601),
        cmocka_unit_test(test_err),
        cmocka_unit_test(test_error_table),
        cmocka_unit_test(test_iso8601_every_day),
        cmocka_unit_test(test_inner_results),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
