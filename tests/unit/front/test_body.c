/* Bodies decoded by a table: every type, the limits of each, fields that are absent, null, missing or unknown, and what
 * a dialect with words of its own is given. */
#include <stdio.h>
#include <string.h>

#include "front/body.h"
#include "tests/lib/unit.h"

struct target {
    const char *text;
    const char *name;
    const char *nick;
    uint64_t number;
    bool flag;
    const struct json *object;
    const struct json *list;
    const struct json *any;
};

#define AT(member) .at = offsetof(struct target, member)

static const struct front_field fields[] = {
    {"text", FRONT_TEXT, AT(text), .max = 5},
    {"name", FRONT_NAME, AT(name), .max = 4, .extra = "_-"},
    {"nick", FRONT_NAME, AT(nick), .max = 4, .extra = "", .may_be_empty = true},
    {"id", FRONT_NAME, AT(nick), .max = 4, .extra = "_-", .is_operand = true},
    {"number", FRONT_NUMBER, AT(number), .min = 2, .max = 9},
    {"flag", FRONT_FLAG, AT(flag)},
    {"object", FRONT_OBJECT, AT(object)},
    {"list", FRONT_LIST, AT(list), .max = 2},
    {"any", FRONT_ANY, AT(any)},
    {.name = NULL}};

static const struct front_field strict_fields[] = {
    {"must", FRONT_TEXT, AT(text), .max = 5, .is_required = true},
    {"both", FRONT_NUMBER, AT(number), .max = 5, .is_required = true, .refuses_null = true},
    {"flag", FRONT_FLAG, AT(flag), .refuses_null = true},
    {.name = NULL}};

/* --- in our own words --- */

static struct json_doc *parse(const char *text)
{
    struct err err;
    struct json_doc *doc = json_parse(text, strlen(text), strlen(text), &err);

    assert_non_null(doc);
    return doc;
}

static void expect(const struct front_field *table, const char *text, const char *message)
{
    struct json_doc *doc = parse(text);
    struct target t = {0};
    struct err err = {0};
    int r = front_decode_strict(json_root(doc), table, &t, &err);

    if (message == NULL) {
        assert_int_equal(r, SP_OK);
    } else {
        assert_int_equal(r, SP_INVALID_FIELD);
        assert_int_equal(err.code, SP_INVALID_FIELD);
        assert_string_equal(err.msg, message);
    }
    (void) json_doc_free(doc);
}

static void all_types(void **state)
{
    struct json_doc *doc =
        parse("{\"text\":\"h\\u00e9llo\",\"name\":\"a_-1\",\"nick\":\"\",\"number\":9,\"flag\":"
              "true,\"object\":{\"x\":1},\"list\":[1,2],\"any\":0.5}");
    struct json_doc *shorter = parse("{\"text\":\"hello\",\"name\":\"a_-1\",\"nick\":\"\","
                                     "\"number\":9,\"flag\":true,\"object\":{\"x\":1},"
                                     "\"list\":[1,2],\"any\":0.5}");
    struct target t = {.nick = "before"};
    struct err err;

    (void) state;
    /* The limit is in bytes. */
    assert_int_equal(front_decode_strict(json_root(doc), fields, &t, &err), SP_INVALID_FIELD);
    assert_int_equal(front_decode_strict(json_root(shorter), fields, &t, &err), SP_OK);
    assert_string_equal(t.text, "hello");
    assert_string_equal(t.name, "a_-1");
    assert_string_equal(t.nick, "");
    assert_int_equal(t.number, 9);
    assert_true(t.flag);
    assert_int_equal(json_len(t.object), 1);
    assert_int_equal(json_len(t.list), 2);
    assert_true(json_num(t.any) > 0.4);
    (void) json_doc_free(doc);
    (void) json_doc_free(shorter);
}

/* What is absent or null keeps what was there. */
static void absent(void **state)
{
    static const char *const bodies[] = {
        "{}", "{\"text\":null,\"name\":null,\"nick\":null,\"number\":null,\"flag\":null,"
              "\"object\":null,\"list\":null,\"any\":null}"};

    (void) state;
    for (size_t i = 0; i < 2; i++) {
        struct json_doc *doc = parse(bodies[i]);
        struct target t = {.text = "t", .name = "n", .number = 3, .flag = true};
        struct err err;

        assert_int_equal(front_decode_strict(json_root(doc), fields, &t, &err), SP_OK);
        assert_string_equal(t.text, "t");
        assert_string_equal(t.name, "n");
        assert_int_equal(t.number, 3);
        assert_true(t.flag);
        assert_null(t.object);
        assert_null(t.list);
        assert_null(t.any);
        (void) json_doc_free(doc);
    }
}

static void wrong_types(void **state)
{
    (void) state;
    expect(fields, "{\"text\":1}", "'text' must be a string");
    expect(fields, "{\"name\":[]}", "'name' must be a string");
    expect(fields, "{\"number\":\"5\"}", "'number' must be a whole number from 2 to 9");
    expect(fields, "{\"number\":2.5}", "'number' must be a whole number from 2 to 9");
    expect(fields, "{\"flag\":1}", "'flag' must be true or false");
    expect(fields, "{\"object\":[]}", "'object' must be an object");
    expect(fields, "{\"list\":{}}", "'list' must be a list");
    expect(fields, "{\"any\":[]}", NULL);
}

static void limits(void **state)
{
    (void) state;
    expect(fields, "{\"text\":\"12345\"}", NULL);
    expect(fields, "{\"text\":\"\"}", NULL);
    expect(fields, "{\"text\":\"123456\"}", "'text' is longer than 5 characters");
    expect(fields, "{\"name\":\"1234\"}", NULL);
    expect(fields, "{\"name\":\"12345\"}", "'name' is longer than 4 characters");
    expect(fields, "{\"name\":\"\"}",
           "'name' must be 1 to 4 characters from letters, digits and '_-'");
    expect(fields, "{\"name\":\"a/b\"}",
           "'name' must be 1 to 4 characters from letters, digits and '_-'");
    expect(fields, "{\"nick\":\"a b\"}",
           "'nick' must be 1 to 4 characters from letters, digits and ''");
    expect(fields, "{\"id\":\"a--b\"}", NULL);
    expect(fields, "{\"id\":\"--a\"}",
           "'id' must be 1 to 4 characters from letters, digits and '_-', the first not '-'");
    expect(fields, "{\"number\":2}", NULL);
    expect(fields, "{\"number\":1}", "'number' must be a whole number from 2 to 9");
    expect(fields, "{\"number\":10}", "'number' must be a whole number from 2 to 9");
    expect(fields, "{\"number\":-3}", "'number' must be a whole number from 2 to 9");
    expect(fields, "{\"list\":[1,2,3]}", "'list' has more than 2 entries");
}

static void unknown_and_missing(void **state)
{
    (void) state;
    expect(fields, "{\"text\":1,\"colour\":2}", "unknown field 'colour'");
    expect(fields, "{\"Text\":\"a\"}", "unknown field 'Text'");
    expect(strict_fields, "{}", "'must' is missing");
    expect(strict_fields, "{\"must\":null}", "'must' is missing");
    expect(strict_fields, "{\"must\":\"a\"}", "'both' is missing");
    expect(strict_fields, "{\"must\":\"a\",\"both\":null}",
           "'both' must be a whole number from 0 to 5");
    expect(strict_fields, "{\"must\":\"a\",\"both\":0,\"flag\":null}",
           "'flag' must be true or false");
    expect(strict_fields, "{\"must\":\"a\",\"both\":0}", NULL);
}

/* The first of several is the one of the table, not of the body. */
static void order(void **state)
{
    (void) state;
    expect(fields, "{\"list\":1,\"number\":\"x\"}", "'number' must be a whole number from 2 to 9");
}

/* --- in a dialect's --- */

struct seen {
    char text[200];
    bool stops;
};

static bool note(void *ctx, const struct front_field *f, enum front_problem problem,
                 const struct json *value)
{
    static const char *const names[] = {
        [FRONT_MISSING] = "missing", [FRONT_WRONG_TYPE] = "type", [FRONT_TOO_LONG] = "long",
        [FRONT_NO_NAME] = "name",    [FRONT_TOO_SMALL] = "small", [FRONT_TOO_LARGE] = "large"};
    struct seen *s = ctx;
    size_t len = strlen(s->text);

    assert_true((value == NULL) == (problem == FRONT_MISSING));
    (void) snprintf(s->text + len, sizeof(s->text) - len, "%s:%s ", f->name, names[problem]);
    return !s->stops;
}

static void expect_seen(const struct front_field *table, const char *text, bool stops,
                        const char *want)
{
    struct json_doc *doc = parse(text);
    struct seen s = {.stops = stops};
    struct target t = {0};

    assert_true(front_decode(json_root(doc), table, &t, note, &s) == (*want == '\0'));
    assert_string_equal(s.text, want);
    (void) json_doc_free(doc);
}

static void own_words(void **state)
{
    static const char all[] = "{\"list\":[1,2,3],\"text\":\"123456\",\"name\":\".\",\"nick\":0,"
                              "\"number\":10,\"flag\":0,\"object\":0,\"more\":1}";

    (void) state;
    expect_seen(fields, all, false,
                "text:long name:name nick:type number:large flag:type object:type list:long ");
    expect_seen(fields, all, true, "text:long ");
    expect_seen(fields, "{\"more\":1}", false, "");
    expect_seen(fields, "{\"number\":0}", false, "number:small ");
    expect_seen(fields, "{\"number\":-1}", false, "number:small ");
    expect_seen(fields, "{\"number\":-0.5}", false, "number:small ");
    expect_seen(fields, "{\"number\":0.5}", false, "number:type ");
    expect_seen(fields, "{\"number\":1e300}", false, "number:type ");
    expect_seen(fields, "{\"number\":true}", false, "number:type ");
    expect_seen(strict_fields, "{\"flag\":null}", false, "must:missing both:missing flag:type ");
    expect_seen(strict_fields, "{\"must\":null,\"both\":null}", false, "must:missing both:type ");
}

/* A field with a problem is not stored, the others are. */
static void stored(void **state)
{
    struct json_doc *doc = parse("{\"text\":\"123456\",\"number\":5}");
    struct target t = {.text = "before"};
    struct seen s = {.stops = false};

    (void) state;
    assert_false(front_decode(json_root(doc), fields, &t, note, &s));
    assert_string_equal(t.text, "before");
    assert_int_equal(t.number, 5);
    (void) json_doc_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_types),           cmocka_unit_test(absent),
        cmocka_unit_test(wrong_types),         cmocka_unit_test(limits),
        cmocka_unit_test(unknown_and_missing), cmocka_unit_test(order),
        cmocka_unit_test(own_words),           cmocka_unit_test(stored),
    };

    return cmocka_run_group_tests_name("front_body", tests, NULL, NULL);
}
