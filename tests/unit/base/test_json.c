/* JSON: what is refused, typed fields, and what is written is read back the same. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/lib/unit.h"

static struct json_doc *parse(const char *text)
{
    struct err err = {0};
    struct json_doc *doc = json_parse(text, strlen(text), 1 << 20, &err);

    if (doc == NULL)
        fail_msg("'%s': %s", text, err.msg);
    return doc;
}

static void test_refused(void **state)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "}",
                                      "[1,]",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "'a'",
                                      "nul",
                                      "1 2",
                                      "{} {}",
                                      "01",
                                      "+1",
                                      ".5",
                                      "NaN",
                                      "Infinity",
                                      "1e999",
                                      "\"\n\"",
                                      "\"\\x\"",
                                      "\"\xff\"",
                                      "\"\xc3\"",
                                      "\"\\ud800\"",
                                      "\"\\u0000\"",
                                      "{\"a\\u0000b\":1}",
                                      "/* c */ 1",
                                      "\xef\xbb\xbf{}",
                                      "{\"a\":1,\"a\":2}",
                                      "[{\"x\":{\"b\":1,\"c\":2,\"\\u0062\":3}}]"};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};

        assert_null(json_parse(bad[i], strlen(bad[i]), 1000, &err));
        assert_int_equal(err.code, SP_BAD_REQUEST);
        assert_true(err.msg[0] != '\0');
        assert_null(json_parse(bad[i], strlen(bad[i]), 1000, NULL));
    }
}

static void test_size_limit(void **state)
{
    struct err err = {0};

    (void) state;
    assert_null(json_parse("[1,2]", 5, 4, &err));
    assert_int_equal(err.code, SP_BODY_TOO_LARGE);
    (void) json_doc_free(json_parse("[1,2]", 5, 5, &err));
    assert_null(json_parse("[1,2]", 4, 5, &err)); /* not a byte past the length */
    assert_null(json_doc_free(NULL));
}

static void test_depth_limit(void **state)
{
    char text[4 * JSON_DEPTH_MAX];
    struct json_doc *doc;

    (void) state;
    for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        doc = json_parse(text, 2 * depth, sizeof(text), NULL);
        assert_true((doc != NULL) == (depth == JSON_DEPTH_MAX));
        (void) json_doc_free(doc);
    }
    /* Brackets in strings do not count, escaped quotes do not end a string. */
    (void) json_doc_free(parse("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\""));
    (void) json_doc_free(parse("[\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]"));
    /* Side by side is not deep. */
    (void) json_doc_free(parse("[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],"
                               "[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]"));
}

static void test_number_of_values(void **state)
{
    static const struct {
        const char *text;
        size_t values;
    } texts[] = {{"1", 1},        {"[]", 2},         {"[1,2,3]", 4},        {"{\"a\":1}", 3},
                 {"\",,,,\"", 1}, {"[[],[],[]]", 7}, {"{\"a,:\":\"[\"}", 3}};
    struct err err = {0};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const char *text = texts[i].text;

        (void) json_doc_free(json_parse_few(text, strlen(text), 100, texts[i].values, &err));
        assert_int_equal(err.code, SP_OK);
        assert_null(json_parse_few(text, strlen(text), 100, texts[i].values - 1, &err));
        assert_int_equal(err.code, SP_BODY_TOO_LARGE);
        err = (struct err){0};
    }
}

static void test_no_memory(void **state)
{
    static const char text[] = "{\"a\":1,\"b\":2}";
    struct err err = {0};

    (void) state;
    mem_fail_after(1, false);
    assert_null(json_parse(text, strlen(text), 100, &err)); /* never accepted unchecked */
    assert_int_equal(err.code, SP_NO_MEMORY);
    mem_fail_after(0, false);
    (void) json_doc_free(parse(text));
}

static void test_values(void **state)
{
    struct json_doc *doc =
        parse("{\"s\":\"x\",\"n\":null,\"t\":true,\"a\":[1,2.5,\"z\"],\"o\":{}}");
    const struct json *root = json_root(doc);
    const struct json *arr = json_get(root, "a");
    struct json_walk walk = {.passed = 0};
    const struct json *v;
    const char *key;

    (void) state;
    assert_true(json_is_obj(root));
    assert_int_equal(json_len(root), 5);
    assert_string_equal(json_str(json_get(root, "s")), "x");
    assert_true(json_is_null(json_get(root, "n")));
    assert_true(json_is_bool(json_get(root, "t")) && json_bool(json_get(root, "t")));
    assert_true(json_is_arr(arr));
    assert_int_equal(json_len(arr), 3);
    assert_true(json_num(json_at(arr, 1)) == 2.5);
    assert_true(json_is_num(json_at(arr, 0)));
    assert_null(json_at(arr, 3));
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(json_next(arr, &walk), json_at(arr, i));
    assert_null(json_next(arr, &walk));
    assert_null(json_next(NULL, &(struct json_walk){.passed = 0}));
    assert_null(json_next(root, &(struct json_walk){.passed = 0}));
    assert_null(json_at(root, 0));
    assert_null(json_get(root, "absent"));
    assert_null(json_get(arr, "s"));
    assert_null(json_get(NULL, "s"));
    assert_null(json_str(arr));
    assert_int_equal(json_len(json_get(root, "s")), 0);
    assert_true(json_member(root, 3, &key, &v));
    assert_string_equal(key, "a");
    assert_ptr_equal(v, arr);
    assert_false(json_member(root, 5, &key, &v));
    assert_false(json_member(arr, 0, &key, &v));
    (void) json_doc_free(doc);
}

static void test_u64_range(void **state)
{
    static const struct {
        const char *text;
        bool is_good;
        uint64_t value;
    } cases[] = {{"0", true, 0},
                 {"9223372036854775807", true, INT64_MAX},
                 {"9223372036854775808", false, 0},
                 {"18446744073709551615", false, 0},
                 {"18446744073709551616", false, 0},
                 {"-1", false, 0},
                 {"1.5", false, 0},
                 {"1e3", false, 0},
                 {"\"1\"", false, 0},
                 {"true", false, 0},
                 {"null", false, 0}};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json_doc *doc = parse(cases[i].text);
        uint64_t v = 0;

        assert_int_equal(json_u64(json_root(doc), &v), cases[i].is_good);
        assert_true(v == cases[i].value);
        (void) json_doc_free(doc);
    }
}

static void test_fields(void **state)
{
    static const char *const known[] = {"s", "n", "u", "b", "o", NULL};
    struct json_doc *doc = parse("{\"s\":\"four\",\"n\":null,\"u\":50,\"b\":true,\"o\":{\"k\":1}}");
    const struct json *root = json_root(doc);
    const struct json *obj = NULL;
    const char *s = "kept";
    uint64_t u = 7;
    bool b = false;
    struct err err = {0};

    (void) state;
    assert_int_equal(json_field_str(root, "absent", 4, &s, &err), SP_OK);
    assert_int_equal(json_field_str(root, "n", 4, &s, &err), SP_OK);
    assert_string_equal(s, "kept"); /* absent and null leave it alone */
    assert_int_equal(json_field_str(root, "s", 3, &s, &err), SP_INVALID_FIELD);
    assert_non_null(strstr(err.msg, "'s'"));
    assert_int_equal(json_field_str(root, "u", 3, &s, &err), SP_INVALID_FIELD);
    assert_int_equal(json_field_str(root, "s", 4, &s, &err), SP_OK);
    assert_string_equal(s, "four");
    assert_int_equal(json_field_u64(root, "n", 1, 2, &u, &err), SP_OK);
    assert_int_equal(json_field_u64(root, "u", 51, 99, &u, &err), SP_INVALID_FIELD);
    assert_int_equal(json_field_u64(root, "u", 1, 49, &u, &err), SP_INVALID_FIELD);
    assert_int_equal(json_field_u64(root, "s", 1, 49, &u, &err), SP_INVALID_FIELD);
    assert_int_equal(u, 7);
    assert_int_equal(json_field_u64(root, "u", 50, 50, &u, &err), SP_OK);
    assert_int_equal(u, 50);
    assert_int_equal(json_field_bool(root, "u", &b, &err), SP_INVALID_FIELD);
    assert_int_equal(json_field_bool(root, "b", &b, &err), SP_OK);
    assert_true(b);
    assert_int_equal(json_field_obj(root, "b", &obj, &err), SP_INVALID_FIELD);
    assert_int_equal(json_field_obj(root, "o", &obj, &err), SP_OK);
    assert_true(json_is_obj(obj));
    assert_int_equal(json_only_fields(root, known, &err), SP_OK);
    assert_int_equal(json_only_fields(root, known + 1, &err), SP_INVALID_FIELD);
    assert_non_null(strstr(err.msg, "'s'"));
    (void) json_doc_free(doc);
}

static void write_sample(struct buf *out)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "s", "quote \" slash \\ line \n tab \t \x01 caf\xc3\xa9");
    json_put_str(&o, "none", NULL);
    json_put_u64(&o, "u", UINT64_MAX);
    json_put_i64(&o, "i", INT64_MIN);
    json_put_num(&o, "d", 0.5);
    json_put_num(&o, "nan", (double) NAN);
    json_put_bool(&o, "b", true);
    json_begin_arr(&o, "a");
    json_put_u64(&o, NULL, 1);
    json_begin_obj(&o, NULL);
    json_end(&o);
    json_put_null(&o, NULL);
    json_end(&o);
    json_put_raw(&o, "raw", "{\"in\":[1]}");
    json_end(&o);
    json_out_finish(&o, out);
}

static void test_round_trip(void **state)
{
    struct json_doc *doc;
    struct buf out;
    struct buf again;

    (void) state;
    buf_init(&out, 4096);
    buf_init(&again, 4096);
    write_sample(&out);
    assert_false(buf_failed(&out));
    doc = parse(buf_str(&out));
    assert_string_equal(json_str(json_get(json_root(doc), "s")),
                        "quote \" slash \\ line \n tab \t \x01 caf\xc3\xa9");
    assert_true(json_is_null(json_get(json_root(doc), "none")));
    assert_true(json_is_null(json_get(json_root(doc), "nan")));
    json_print(json_root(doc), &again);
    assert_string_equal(buf_str(&again), buf_str(&out));
    assert_non_null(strstr(buf_str(&out), "\"u\":18446744073709551615"));
    assert_non_null(strstr(buf_str(&out), "\"i\":-9223372036854775808"));
    assert_non_null(strstr(buf_str(&out), "\"a\":[1,{},null]"));
    assert_non_null(strstr(buf_str(&out), "\"raw\":{\"in\":[1]}"));
    (void) json_doc_free(doc);
    buf_fini(&out);
    buf_fini(&again);
}

/* A message cut in the middle of a character must not spoil the whole answer. */
static void test_bad_bytes_are_replaced(void **state)
{
    struct json_out o;
    struct json_doc *doc;
    struct buf out;

    (void) state;
    buf_init(&out, 4096);
    json_out_init(&o);
    json_begin_arr(&o, NULL);
    json_put_str(&o, NULL, "ok \xc3\xa9 cut \xc3");
    json_put_str(&o, NULL, "\xff");
    json_end(&o);
    json_out_finish(&o, &out);
    doc = parse(buf_str(&out));
    assert_string_equal(json_str(json_at(json_root(doc), 0)), "ok \xc3\xa9 cut \xef\xbf\xbd");
    assert_string_equal(json_str(json_at(json_root(doc), 1)), "\xef\xbf\xbd");
    (void) json_doc_free(doc);
    buf_fini(&out);
}

static void test_output_limit(void **state)
{
    struct buf out;

    (void) state;
    buf_init(&out, 10);
    write_sample(&out);
    assert_true(buf_failed(&out));
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_size_limit),
        cmocka_unit_test(test_depth_limit),  cmocka_unit_test(test_number_of_values),
        cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_values),
        cmocka_unit_test(test_u64_range),    cmocka_unit_test(test_fields),
        cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_bad_bytes_are_replaced),
        cmocka_unit_test(test_output_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
