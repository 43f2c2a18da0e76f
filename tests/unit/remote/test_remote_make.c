/* Boxes made by the `remote` backend on a provisioner that loses answers, refuses, or talks nonsense: nothing
 * is made twice, nothing that was made is forgotten, and the words of a refusal arrive. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "tests/lib/unit.h"
#include "tests/unit/remote/provisioner.h"

static void test_lost_answers(void **state)
{
    static const char *const ways[] = {"lost",     "late:0.5",        "drop",
                                       "hang",     "done_status:500", "huge",
                                       "not_http", "done_status:502"};
    struct fixture *fixture = *state;
    struct backend_create r;

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        provisioner_set(fixture, "{'rules': [{'on': 'create', 'do': '%s'}]}", ways[i]);
        if (fixture_create(fixture, &r, &fixture->profile) != SP_OK)
            fail_msg("%s: %s", ways[i], r.op.err.msg);
        assert_int_equal(provisioner_count(fixture), 1);
        assert_int_equal(provisioner_made(fixture, provisioner_name(&r.box)), 1);
        assert_true(provisioner_asked(fixture, "get", provisioner_name(&r.box)) > 0);
        provisioner_verdict(fixture, &r.box, BACKEND_ALIVE);
        if (strncmp(ways[i], "late", 4) == 0)
            fixture_pause(fixture,
                          1000); /* what is made after its delete only a listing can find */
        provisioner_destroy(fixture, &r);
    }
    assert_int_equal(provisioner_count(fixture), 0);
}

/* The answers to the questions are lost as well. */
static void test_lost_for_long(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;

    provisioner_set(fixture,
                    "{'rules': [{'on': 'create', 'do': 'lost'}, {'on': 'get', 'do': 'drop'}, "
                    "{'on': 'get', 'do': 'status:500'}, {'on': 'get', 'do': 'malformed'}, "
                    "{'on': 'get', 'do': 'hang'}]}");
    provisioner_create(fixture, &r);
    assert_int_equal(provisioner_made(fixture, provisioner_name(&r.box)), 1);
    provisioner_destroy(fixture, &r);
}

static void test_answers_that_make_no_sense(void **state)
{
    static const char *const ways[] = {"malformed",
                                       "set:sandbox_id=\\\"other\\\"",
                                       "set:sandbox_id=7",
                                       "unset:sandbox_id",
                                       "set:sandbox_url=5",
                                       "set:sandbox_url=\\\"ftp://x\\\"",
                                       "set:sandbox_url=\\\"http://u:p@x\\\"",
                                       "unset:sandbox_url",
                                       "set:status=null",
                                       "unset:status",
                                       "set:container_id=7",
                                       "set:max_shell_sessions=\\\"a\\\"",
                                       "set:container_id=\\\"a b\\\""};
    struct fixture *fixture = *state;
    struct backend_create r;
    char text[256];

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        (void) snprintf(text, sizeof(text), "{'rules': [{'on': 'create', 'do': '%s'}]}", ways[i]);
        provisioner_set(fixture, "%s", text);
        assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_PROTOCOL);
        assert_true(strncmp(r.op.err.msg, "the provisioner's answer", 24) == 0);
        provisioner_destroy(fixture, &r); /* what was made is found by the id we gave it */
        assert_int_equal(provisioner_count(fixture), 0);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        const char *how;
        const char *words;
    } cases[] = {
        {"status:400 no such\\nmount", "the provisioner answered 400: no such mount"},
        {"status:409 capacity too small", "the provisioner answered 409: capacity too small"},
        {"status:500 Pod creation failed: quota", "the provisioner answered 500: Pod creation "
                                                  "failed: quota"},
        {"status:401", "the provisioner refuses the key (401): check remote.provisioner_api_key"},
        {"echo_key", "the provisioner answered 400: (what it said repeats the key)"},
        {"status:404 Not Found", "the provisioner answered 404: Not Found"},
    };
    struct fixture *fixture = *state;
    struct backend_create r;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        provisioner_set(fixture, "{'rules': [{'on': 'create', 'do': '%s'}]}", cases[i].how);
        assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_BACKEND_FAILED);
        assert_string_equal(r.op.err.msg, cases[i].words);
        provisioner_destroy(fixture, &r);
    }
}

/* What was refused for sure needs no delete, so that a wrong key does not fill the pool with rows. */
static void test_wrong_key(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;
    size_t deletes = provisioner_asked(fixture, "delete", NULL);

    provisioner_set(fixture, "{'key': 'another'}");
    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_BACKEND_FAILED);
    provisioner_destroy(fixture, &r);
    assert_int_equal(provisioner_asked(fixture, "delete", NULL), deletes);
    provisioner_set(fixture, "{'key': '" PROVISIONER_KEY "'}");
}

static void test_still_terminating(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create first;
    struct backend_create second;

    provisioner_special(fixture, &first, "feedfacefeedface");
    provisioner_set(fixture, "{'lingers_s': 1}");
    provisioner_reopen(fixture);
    provisioner_set(fixture, "{'rules': [{'on': 'create', 'do': 'status:409 is still Terminating', "
                             "'times': 3}]}");
    provisioner_special(fixture, &second, "feedfacefeedface");
    provisioner_destroy(fixture, &second);
    /* for ever: what it said is in the error */
    provisioner_set(fixture, "{'rules': [{'on': 'create', 'do': 'status:409 is still Terminating', "
                             "'times': -1}]}");
    provisioner_start_special(fixture, &second, "feedfacefeedface", NULL,
                              fixture_deadline(fixture, 1500));
    fixture_wait(fixture);
    assert_int_equal(second.op.result, SP_TIMEOUT);
    assert_non_null(strstr(second.op.err.msg, "is still Terminating"));
    provisioner_destroy(fixture, &second);
}

static void test_dead_leftovers(void **state)
{
    static const char *const words[] = {"NotFound", "Failed", "Succeeded"};
    struct fixture *fixture = *state;
    struct backend_create r;

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        provisioner_set(fixture, "{'add': {'id': 'aaaabbbbccccdddd'}}");
        provisioner_set(fixture, "{'box': {'id': 'aaaabbbbccccdddd', 'status': '%s'}}", words[i]);
        provisioner_special(fixture, &r, "aaaabbbbccccdddd");
        provisioner_verdict(fixture, &r.box, BACKEND_ALIVE);
        provisioner_destroy(fixture, &r);
        assert_false(provisioner_has(fixture, "aaaabbbbccccdddd"));
    }
}

static void test_too_few_sessions(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;

    provisioner_set(fixture, "{'sessions': 3}");
    assert_int_equal(fixture_create(fixture, &r, &fixture->slow), SP_BACKEND_FAILED);
    assert_string_equal(r.op.err.msg,
                        "the box has 3 shell sessions, remote.max_shell_sessions asks for 7");
    provisioner_destroy(fixture, &r);
    provisioner_set(fixture, "{'old': true}"); /* one that does not report it is believed */
    assert_int_equal(fixture_create(fixture, &r, &fixture->slow), SP_OK);
    provisioner_destroy(fixture, &r);
}

static const char *request_of(const struct json_doc *doc, const char *name, const char *field)
{
    const struct json *box = json_get(json_get(json_root(doc), "boxes"), name);

    return json_str(json_get(json_get(box, "request"), field));
}

#define MOUNT(from, to, ro)                                         \
    {                                                               \
        .host_path = (from), .box_path = (to), .is_read_only = (ro) \
    }

static void test_what_is_passed_on(void **state)
{
    static const struct backend_mount mounts[11] = {
        MOUNT("/srv/a", "/a", true),  MOUNT("/srv/b", "/b", false), MOUNT("/srv/b", "/1", false),
        MOUNT("/srv/b", "/2", false), MOUNT("/srv/b", "/3", false), MOUNT("/srv/b", "/4", false),
        MOUNT("/srv/b", "/5", false), MOUNT("/srv/b", "/6", false), MOUNT("/srv/b", "/7", false),
        MOUNT("/srv/b", "/8", false), MOUNT("/srv/b", "/9", false)};
    struct backend_extras extras = {.mounts = mounts, .mount_count = 2};
    struct fixture *fixture = *state;
    struct backend_create r;
    struct json_doc *doc;
    const struct json *passed;

    str_copy_cut(fixture->profile.mounts, sizeof(fixture->profile.mounts), "/srv/c:/c:ro");
    provisioner_start_special(fixture, &r, "0123456789abcdef", &extras, fixture_soon(fixture));
    fixture_wait(fixture);
    assert_int_equal(r.op.result, SP_OK);
    doc = provisioner_control(fixture, "{}");
    assert_string_equal(request_of(doc, "0123456789abcdef", "thread_id"), "thread-1");
    assert_string_equal(request_of(doc, "0123456789abcdef", "user_id"),
                        "ann---co-11cb66248ba55cc7");
    passed = json_get(
        json_get(json_get(json_get(json_root(doc), "boxes"), "0123456789abcdef"), "request"),
        "extra_mounts");
    assert_int_equal(json_len(passed), 3);
    assert_string_equal(json_str(json_get(json_at(passed, 0), "host_path")), "/srv/c");
    assert_true(json_bool(json_get(json_at(passed, 0), "read_only")));
    assert_string_equal(json_str(json_get(json_at(passed, 2), "container_path")), "/b");
    assert_false(json_bool(json_get(json_at(passed, 2), "read_only")));
    (void) json_doc_free(doc);
    provisioner_destroy(fixture, &r);

    extras.mount_count = 10; /* and one of the profile */
    provisioner_start_special(fixture, &r, "0123456789abcdef", &extras, fixture_soon(fixture));
    fixture_wait(fixture);
    assert_int_equal(r.op.result, SP_INVALID_FIELD);
    provisioner_destroy(fixture, &r);
}

static void test_ids_that_cannot_be(void **state)
{
    static const char *const ids[] = {"Big",
                                      "a/b",
                                      "-a",
                                      "a-",
                                      "a.b",
                                      "sp-00112233-0123456789abcdef",
                                      "0123456789012345678901234567890123456789012345678901"};
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_box found;

    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        provisioner_start_special(fixture, &r, ids[i], NULL, fixture_soon(fixture));
        fixture_wait(fixture);
        assert_int_equal(r.op.result, SP_INVALID_FIELD);
        provisioner_destroy(fixture, &r);
    }
    assert_false(fixture_discover(fixture, "odd id/with?signs&=%", &found));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, provisioner_set_up, provisioner_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_lost_answers),
        TEST(test_lost_for_long),
        TEST(test_answers_that_make_no_sense),
        TEST(test_refusals),
        TEST(test_wrong_key),
        TEST(test_still_terminating),
        TEST(test_dead_leftovers),
        TEST(test_too_few_sessions),
        TEST(test_what_is_passed_on),
        TEST(test_ids_that_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
