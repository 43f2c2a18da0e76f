/* Boxes made by the `remote` backend on a provisioner that loses answers, refuses, or talks nonsense: nothing
 * is made twice, nothing that was made is forgotten, and the words of a refusal arrive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "tests/unit/remote/bench.h"

static void test_lost_answers(void **state)
{
    static const char *const ways[] = {"lost",     "late:0.5",        "drop",
                                       "hang",     "done_status:500", "huge",
                                       "not_http", "done_status:502"};
    struct rig *rig = *state;
    struct backend_create r;

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        bench_set(rig, "{'rules': [{'on': 'create', 'do': '%s'}]}", ways[i]);
        if (rig_create(rig, &r, &rig->profile) != SP_OK)
            fail_msg("%s: %s", ways[i], r.op.err.msg);
        assert_int_equal(bench_count(rig), 1);
        assert_int_equal(bench_made(rig, bench_name(&r.box)), 1);
        assert_true(bench_asked(rig, "get", bench_name(&r.box)) > 0);
        bench_verdict(rig, &r.box, BACKEND_ALIVE);
        if (strncmp(ways[i], "late", 4) == 0)
            rig_pause(rig, 1000); /* what is made after its delete only a listing can find */
        bench_destroy(rig, &r);
    }
    assert_int_equal(bench_count(rig), 0);
}

/* The answers to the questions are lost as well. */
static void test_lost_for_long(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;

    bench_set(rig, "{'rules': [{'on': 'create', 'do': 'lost'}, {'on': 'get', 'do': 'drop'}, "
                   "{'on': 'get', 'do': 'status:500'}, {'on': 'get', 'do': 'malformed'}, "
                   "{'on': 'get', 'do': 'hang'}]}");
    bench_create(rig, &r);
    assert_int_equal(bench_made(rig, bench_name(&r.box)), 1);
    bench_destroy(rig, &r);
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
    struct rig *rig = *state;
    struct backend_create r;
    char text[256];

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        (void) snprintf(text, sizeof(text), "{'rules': [{'on': 'create', 'do': '%s'}]}", ways[i]);
        bench_set(rig, "%s", text);
        assert_int_equal(rig_create(rig, &r, &rig->profile), SP_PROTOCOL);
        assert_true(strncmp(r.op.err.msg, "the provisioner's answer", 24) == 0);
        bench_destroy(rig, &r); /* what was made is found by the id we gave it */
        assert_int_equal(bench_count(rig), 0);
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
    struct rig *rig = *state;
    struct backend_create r;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bench_set(rig, "{'rules': [{'on': 'create', 'do': '%s'}]}", cases[i].how);
        assert_int_equal(rig_create(rig, &r, &rig->profile), SP_BACKEND_FAILED);
        assert_string_equal(r.op.err.msg, cases[i].words);
        bench_destroy(rig, &r);
    }
}

/* What was refused for sure needs no delete, so that a wrong key does not fill the pool with rows. */
static void test_wrong_key(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;
    size_t deletes = bench_asked(rig, "delete", NULL);

    bench_set(rig, "{'key': 'another'}");
    assert_int_equal(rig_create(rig, &r, &rig->profile), SP_BACKEND_FAILED);
    bench_destroy(rig, &r);
    assert_int_equal(bench_asked(rig, "delete", NULL), deletes);
    bench_set(rig, "{'key': '" BENCH_KEY "'}");
}

static void test_still_terminating(void **state)
{
    struct rig *rig = *state;
    struct backend_create first;
    struct backend_create second;

    bench_special(rig, &first, "feedfacefeedface");
    bench_set(rig, "{'lingers_s': 1}");
    bench_reopen(rig);
    bench_set(rig, "{'rules': [{'on': 'create', 'do': 'status:409 is still Terminating', "
                   "'times': 3}]}");
    bench_special(rig, &second, "feedfacefeedface");
    bench_destroy(rig, &second);
    /* for ever: what it said is in the error */
    bench_set(rig, "{'rules': [{'on': 'create', 'do': 'status:409 is still Terminating', "
                   "'times': -1}]}");
    bench_start_special(rig, &second, "feedfacefeedface", NULL, rig_deadline(rig, 1500));
    rig_wait(rig);
    assert_int_equal(second.op.result, SP_TIMEOUT);
    assert_non_null(strstr(second.op.err.msg, "is still Terminating"));
    bench_destroy(rig, &second);
}

static void test_dead_leftovers(void **state)
{
    static const char *const words[] = {"NotFound", "Failed", "Succeeded"};
    struct rig *rig = *state;
    struct backend_create r;

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        bench_set(rig, "{'add': {'id': 'aaaabbbbccccdddd'}}");
        bench_set(rig, "{'box': {'id': 'aaaabbbbccccdddd', 'status': '%s'}}", words[i]);
        bench_special(rig, &r, "aaaabbbbccccdddd");
        bench_verdict(rig, &r.box, BACKEND_ALIVE);
        bench_destroy(rig, &r);
        assert_false(bench_has(rig, "aaaabbbbccccdddd"));
    }
}

static void test_too_few_sessions(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;

    bench_set(rig, "{'sessions': 3}");
    assert_int_equal(rig_create(rig, &r, &rig->slow), SP_BACKEND_FAILED);
    assert_string_equal(r.op.err.msg,
                        "the box has 3 shell sessions, remote.max_shell_sessions asks for 7");
    bench_destroy(rig, &r);
    bench_set(rig, "{'old': true}"); /* one that does not report it is believed */
    assert_int_equal(rig_create(rig, &r, &rig->slow), SP_OK);
    bench_destroy(rig, &r);
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
    struct rig *rig = *state;
    struct backend_create r;
    struct json_doc *doc;
    const struct json *passed;

    str_copy_cut(rig->profile.mounts, sizeof(rig->profile.mounts), "/srv/c:/c:ro");
    bench_start_special(rig, &r, "0123456789abcdef", &extras, rig_soon(rig));
    rig_wait(rig);
    assert_int_equal(r.op.result, SP_OK);
    doc = bench_control(rig, "{}");
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
    bench_destroy(rig, &r);

    extras.mount_count = 10; /* and one of the profile */
    bench_start_special(rig, &r, "0123456789abcdef", &extras, rig_soon(rig));
    rig_wait(rig);
    assert_int_equal(r.op.result, SP_INVALID_FIELD);
    bench_destroy(rig, &r);
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
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_box found;

    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        bench_start_special(rig, &r, ids[i], NULL, rig_soon(rig));
        rig_wait(rig);
        assert_int_equal(r.op.result, SP_INVALID_FIELD);
        bench_destroy(rig, &r);
    }
    assert_false(rig_discover(rig, "odd id/with?signs&=%", &found));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_set_up, bench_tear_down)

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
