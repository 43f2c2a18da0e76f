/* The `remote` backend on a provisioner that misbehaves in what it says of boxes, in its lists and its deletes:
 * nothing counts as gone that is not, nothing unknown is taken for dead. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "tests/lib/unit.h"
#include "tests/unit/remote/provisioner.h"

/* --- what is said of boxes --- */

static void test_pending_is_not_dead(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_box found;

    provisioner_set(fixture, "{'pending_s': 1000}");
    provisioner_special(fixture, &r, "0123456789abcdef");
    provisioner_verdict(fixture, &r.box, BACKEND_UNKNOWN);
    assert_true(fixture_discover(fixture, "0123456789abcdef", &found));
    assert_true(fixture_is_listed(fixture, r.labels.box_id));
    provisioner_set(fixture, "{'box': {'id': '0123456789abcdef', 'status': 'Unknown'}}");
    provisioner_verdict(fixture, &r.box, BACKEND_UNKNOWN);
    assert_true(fixture_is_listed(fixture, r.labels.box_id));
    assert_false(fixture_discover(fixture, "0123456789abcdef", &found));
    provisioner_set(fixture, "{'box': {'id': '0123456789abcdef', 'status': 'SomethingNew'}}");
    provisioner_verdict(fixture, &r.box, BACKEND_UNKNOWN);
    provisioner_destroy(fixture, &r);
    assert_false(fixture_discover(fixture, "0123456789abcdef", &found));
}

static void test_dead_is_dead(void **state)
{
    static const char *const words[] = {"Failed", "Succeeded", "Terminating", "NotFound"};
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_box found;

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        provisioner_special(fixture, &r, "0123456789abcdef");
        provisioner_set(fixture, "{'box': {'id': '0123456789abcdef', 'status': '%s'}}", words[i]);
        /* NotFound is also what is said of a Pod that cannot be read */
        provisioner_verdict(fixture, &r.box, i == 3 ? BACKEND_ABSENT : BACKEND_DEAD);
        assert_false(fixture_discover(fixture, "0123456789abcdef", &found));
        assert_false(fixture_is_listed(fixture, r.labels.box_id));
        provisioner_destroy(fixture, &r);
        provisioner_verdict(fixture, &r.box, BACKEND_ABSENT);
    }
}

static void test_no_answer_is_unknown(void **state)
{
    static const char *const ways[] = {
        "drop",      "hang", "status:500",   "status:401",
        "malformed", "huge", "set:status=7", "set:sandbox_id=\\\"other\\\""};
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_discover d;
    enum backend_verdict verdict;

    provisioner_create(fixture, &r);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        provisioner_set(fixture, "{'rules': [{'on': 'get', 'do': '%s', 'times': -1}]}", ways[i]);
        assert_int_not_equal(fixture_check(fixture, &r.box, &verdict), SP_OK);
        assert_int_equal(verdict, BACKEND_UNKNOWN);
        memset(&d, 0, sizeof(d));
        str_copy_cut(d.sandbox_id, sizeof(d.sandbox_id), provisioner_name(&r.box));
        fixture->pending++;
        fixture->backend->ops->discover(fixture->backend, &d, fixture_soon(fixture), fixture_done);
        fixture_wait(fixture);
        assert_int_not_equal(d.op.result, SP_OK);
        assert_false(d.is_found);
    }
    provisioner_set(fixture, "{'rules': []}");
    provisioner_destroy(fixture, &r);
}

static int list_result(struct fixture *fixture, size_t *ret_count)
{
    struct backend_list r = {.boxes = NULL};

    fixture->pending++;
    fixture->backend->ops->list(fixture->backend, &r, fixture_soon(fixture), fixture_done);
    fixture_wait(fixture);
    *ret_count = r.count;
    backend_list_fini(&r);
    return r.op.result;
}

static void test_lists_that_are_none(void **state)
{
    static const char *const ways[] = {
        "drop", "hang",    "status:500",      "status:401",          "status:404",     "malformed",
        "huge", "partial", "set:sandboxes=5", "set:count=\\\"1\\\"", "unset:sandboxes"};
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_box listed;
    bool is_listed;
    size_t count;

    provisioner_create(fixture, &r);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        provisioner_set(fixture, "{'rules': [{'on': 'list', 'do': '%s', 'times': -1}]}", ways[i]);
        assert_int_not_equal(list_result(fixture, &count), SP_OK);
        assert_int_equal(count, 0);
    }
    provisioner_set(fixture,
                    "{'rules': [{'on': 'list', 'do': 'unset:count'}]}"); /* not everybody counts */
    assert_true(fixture_is_listed(fixture, r.labels.box_id));
    /* one bad entry: it is there, with what we know of it */
    provisioner_set(fixture, "{'rules': [{'on': 'list', 'do': 'set:first.sandbox_url=5'}]}");
    assert_int_equal(fixture_list(fixture, fixture->backend, r.labels.box_id, &listed, &is_listed),
                     1);
    assert_true(is_listed);
    assert_string_equal(listed.url, r.box.url);
    provisioner_set(fixture, "{'rules': [{'on': 'list', 'do': 'set:first.sandbox_id=5'}]}");
    assert_int_equal(list_result(fixture, &count), SP_OK);
    assert_int_equal(count, 0);
    provisioner_destroy(fixture, &r);
}

/* --- another one under the same id --- */

static void test_replaced(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_create own;
    struct backend_destroy gone;
    bool is_listed;
    struct backend_box listed;

    provisioner_create(fixture, &own);
    provisioner_special(fixture, &r, "0123456789abcdef");
    provisioner_set(fixture, "{'box': {'id': '0123456789abcdef', 'uid': 'other'}}");
    provisioner_set(fixture, "{'box': {'id': '%s', 'uid': 'other'}}", provisioner_name(&own.box));
    for (int i = 0; i < 2; i++) {
        provisioner_verdict(fixture, &r.box, BACKEND_DEAD);
        provisioner_verdict(fixture, &own.box, BACKEND_DEAD);
        (void) fixture_list(fixture, fixture->backend, own.labels.box_id, &listed, &is_listed);
        if (is_listed) /* after a restart the pool compares */
            assert_string_not_equal(listed.ref, own.box.ref);
        provisioner_reopen(fixture);
    }
    fixture_start_destroy(fixture, &gone, &r.box, fixture_soon(fixture));
    fixture_wait(fixture);
    assert_int_equal(gone.op.result, SP_OK);
    assert_true(provisioner_has(fixture, "0123456789abcdef")); /* not ours to delete */
    fixture_start_destroy(fixture, &gone, &own.box, fixture_soon(fixture));
    fixture_wait(fixture);
    assert_false(provisioner_has(
        fixture, provisioner_name(&own.box))); /* the id is ours, whatever is there */
    provisioner_set(fixture, "{'lose': '0123456789abcdef'}");
}

static void recall(struct fixture *fixture, const char *ref, const char *life, uint64_t ago_s)
{
    fixture->backend->ops->recall(fixture->backend, ref, life, ago_s * NS_PER_S);
}

static bool is_gone(struct fixture *fixture, const char *ref, const char *life)
{
    return fixture->backend->ops->is_gone(fixture->backend, ref, life);
}

/* What an earlier life has deleted is doubted for as long as this one would, unless it proves to be another. */
static void test_deleted_in_an_earlier_life(void **state)
{
    static const char *const id = "0123456789abcdef";
    struct fixture *fixture = *state;
    struct backend_box found;
    char ref[512];

    provisioner_set(fixture, "{'add': {'id': '%s'}}", id);
    recall(fixture, id, "a-life", 300);
    recall(fixture, "", "a-life", 0);
    recall(fixture, id, "", 0); /* nothing to recognize it by */
    memset(ref, 'a', sizeof(ref));
    ref[sizeof(ref) - 1] = '\0';
    recall(fixture, ref, "a-life", 0);
    assert_true(fixture_discover(fixture, id, &found));
    assert_false(is_gone(fixture, id, "a-life"));

    recall(fixture, id, "a-life", 299);
    assert_false(fixture_discover(fixture, id, &found));
    assert_true(is_gone(fixture, id, "a-life"));
    assert_true(is_gone(fixture, id, ""));
    assert_false(is_gone(fixture, id, "another-life"));
    assert_false(is_gone(fixture, "fedcba9876543210", "a-life"));

    (void) snprintf(ref, sizeof(ref), "%s@another-one", id); /* the last word counts */
    recall(fixture, ref, "a-life", 0);
    assert_true(fixture_discover(fixture, id, &found));
    assert_false(is_gone(fixture, found.ref, "a-life"));
    assert_true(is_gone(fixture, ref, "a-life"));
    recall(fixture, found.ref, "a-life", 0);
    assert_true(is_gone(fixture, found.ref, "another-life")); /* its container was started again */
    assert_false(fixture_discover(fixture, id, &found));
    provisioner_reopen(fixture);
    assert_true(fixture_discover(fixture, id, &found));
    provisioner_set(fixture, "{'reset': true}");
}

/* Kept are those whose name is used again. */
static void test_names_that_are_used_again(void **state)
{
    struct fixture *fixture = *state;
    const struct backend_ops *ops = fixture->backend->ops;

    assert_true(ops->may_return("0123456789abcdef"));
    assert_true(ops->may_return("0123456789abcdef@a-uid"));
    assert_false(ops->may_return("sp-00112233-0123456789abcdef@a-uid"));
    assert_false(ops->may_return(""));
}

/* A thread's second box waits until its first, under the same id, is gone for sure. */
static void same_name_twice(struct fixture *fixture, bool is_old)
{
    struct backend_create first;
    struct backend_create second;
    struct backend_destroy gone;

    provisioner_special(fixture, &first, "0123456789abcdef");
    provisioner_set(fixture, "{'lingers_s': 0.5, 'rules': [{'on': 'delete', 'do': 'slow:0.3'}]}");
    fixture_start_destroy(fixture, &gone, &first.box,
                          fixture_deadline(fixture, 50)); /* not in time */
    provisioner_start_special(fixture, &second, "0123456789abcdef", NULL, fixture_soon(fixture));
    fixture_wait(fixture);
    assert_int_equal(gone.op.result, SP_TIMEOUT);
    assert_int_equal(second.op.result, SP_OK);
    if (!is_old) /* else nobody could distinguish them */
        assert_string_not_equal(first.box.ref, second.box.ref);
    fixture_start_destroy(fixture, &gone, &first.box,
                          fixture_soon(fixture)); /* asked again, of what is gone */
    fixture_wait(fixture);
    assert_int_equal(gone.op.result, SP_OK);
    provisioner_verdict(fixture, &second.box, BACKEND_ALIVE);
    provisioner_set(fixture, "{'lingers_s': 0}");
    provisioner_destroy(fixture, &second);
}

static void test_same_name_twice(void **state)
{
    struct fixture *fixture = *state;

    same_name_twice(fixture, false);
    provisioner_set(fixture, "{'old': true}");
    same_name_twice(fixture, true);
}

/* --- deletes --- */

static void test_delete_until_gone(void **state)
{
    static const char *const ways[] = {
        "status:500 Partial cleanup", "drop", "hang", "lost", "malformed", "status:503"};
    struct fixture *fixture = *state;
    struct backend_create r;

    for (int old = 0; old < 2; old++) {
        provisioner_set(fixture, "{'old': %s, 'lingers_s': 0.4}", old == 1 ? "true" : "false");
        for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
            provisioner_create(fixture, &r);
            provisioner_set(
                fixture,
                "{'rules': [{'on': 'delete', 'do': '%s', 'times': 2}, {'on': 'presence', "
                "'do': 'status:500'}, {'on': 'presence', 'do': 'unset:exists'}]}",
                ways[i]);
            provisioner_destroy(fixture, &r);
            if (old == 0) /* an older one forgets a box before its Pod is gone: nobody can know */
                assert_false(provisioner_has(fixture, provisioner_name(&r.box)));
        }
        provisioner_set(fixture, "{'rules': []}");
    }
    fixture_pause(fixture, 500);
    assert_int_equal(provisioner_count(fixture), 0);
}

static void test_delete_that_never_works(void **state)
{
    static const char *const ways[] = {"status:500", "status:401", "hang"};
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_destroy gone;

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        provisioner_create(fixture, &r);
        provisioner_set(fixture, "{'rules': [{'on': 'delete', 'do': '%s', 'times': -1}]}", ways[i]);
        fixture_start_destroy(fixture, &gone, &r.box, fixture_deadline(fixture, 700));
        fixture_wait(fixture);
        assert_int_not_equal(gone.op.result, SP_OK);
        assert_true(provisioner_has(fixture, provisioner_name(&r.box)));
        assert_true(
            fixture_is_listed(fixture, r.labels.box_id)); /* or the pool would think it is gone */
        provisioner_set(fixture, "{'box': {'id': '%s', 'status': 'Failed'}}",
                        provisioner_name(&r.box));
        assert_true(fixture_is_listed(fixture, r.labels.box_id));
        provisioner_set(fixture, "{'rules': []}");
        provisioner_destroy(fixture, &r);
        assert_false(provisioner_has(fixture, provisioner_name(&r.box)));
    }
}

static void test_presence_is_asked_for_once(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;
    size_t before = provisioner_asked(fixture, "presence", NULL);

    provisioner_set(fixture, "{'old': true}");
    for (int i = 0; i < 3; i++) {
        provisioner_create(fixture, &r);
        assert_null(strchr(r.box.ref, '@'));
        provisioner_destroy(fixture, &r);
    }
    assert_int_equal(provisioner_asked(fixture, "presence", NULL), before + 1);
}

/* --- after a restart --- */

static void test_restart(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create own;
    struct backend_create r;
    struct backend_box listed;
    bool is_listed;

    provisioner_create(fixture, &own);
    provisioner_special(fixture, &r, "0123456789abcdef");
    provisioner_set(fixture, "{'add': {'id': 'somebodyelse'}}");
    provisioner_reopen(fixture);
    assert_int_equal(
        fixture_list(fixture, fixture->backend, own.labels.box_id, &listed, &is_listed), 3);
    assert_true(is_listed);
    assert_string_equal(listed.labels.instance, fixture_instance());
    assert_string_equal(listed.labels.profile, ""); /* nobody knows: it is nobody's any more */
    assert_string_equal(listed.ref, own.box.ref);
    assert_false(fixture_is_listed(fixture, r.labels.box_id));
    provisioner_verdict(fixture, &r.box, BACKEND_ALIVE);
    provisioner_destroy(fixture, &r);
    provisioner_destroy(fixture, &own);
    assert_true(provisioner_has(fixture, "somebodyelse"));
    provisioner_set(fixture, "{'lose': 'somebodyelse'}");
}

static void test_dead_strays(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;

    provisioner_create(fixture, &r);
    provisioner_set(fixture, "{'box': {'id': '%s', 'status': 'Failed'}}", provisioner_name(&r.box));
    provisioner_reopen(fixture);
    assert_int_equal(provisioner_count(fixture), 0);
    fixture_pause(fixture, 100);
    assert_true(
        provisioner_has(fixture, provisioner_name(&r.box))); /* a destroy may be on its way */
    assert_int_equal(provisioner_count(fixture), 0);
    for (int i = 0; i < 100 && provisioner_has(fixture, provisioner_name(&r.box)); i++)
        fixture_pause(fixture, 50);
    assert_false(provisioner_has(fixture, provisioner_name(&r.box)));
}

/* --- what a doctor finds --- */

static enum backend_finding_level worst_finding(struct fixture *fixture, const char *subject)
{
    struct backend_exam exam = {.findings = NULL};
    enum backend_finding_level worst = BACKEND_FINDING_OK;

    fixture->pending++;
    fixture->backend->ops->examine(fixture->backend, &exam, fixture_deadline(fixture, 30000),
                                   fixture_done);
    fixture_wait(fixture);
    assert_int_equal(exam.op.result, SP_OK);
    for (size_t i = 0; i < exam.count; i++) {
        assert_null(strstr(exam.findings[i].text, PROVISIONER_KEY));
        if (strcmp(exam.findings[i].subject, subject) == 0)
            worst = MAX_OF(worst, exam.findings[i].level);
    }
    backend_exam_fini(&exam);
    return worst;
}

static void test_examine(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(worst_finding(fixture, "key"), BACKEND_FINDING_OK);
    provisioner_set(fixture, "{'key': 'another'}");
    assert_int_equal(worst_finding(fixture, "key"), BACKEND_FINDING_FAIL);
    provisioner_set(fixture, "{'key': '" PROVISIONER_KEY "', 'old': true}");
    assert_int_equal(worst_finding(fixture, "capabilities"), BACKEND_FINDING_OK);
    provisioner_set(fixture, "{'rules': [{'on': 'health', 'do': 'drop', 'times': -1}]}");
    assert_int_equal(worst_finding(fixture, "provisioner"), BACKEND_FINDING_FAIL);
}

static void test_box_without_agent(void **state)
{
    static const struct backend_env_var envs[] = {{"A", "b"}};
    const struct backend_extras extras = {.envs = envs, .env_count = 1};
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_update update;

    provisioner_create(fixture, &r);
    provisioner_set(fixture, "{'has_agent': false}");
    fixture_start_update(fixture, &update, &r.box, &extras, fixture_soon(fixture));
    fixture_wait(fixture);
    assert_int_equal(update.op.result, SP_UNSUPPORTED);
    provisioner_destroy(fixture, &r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, provisioner_set_up, provisioner_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pending_is_not_dead),
        TEST(test_dead_is_dead),
        TEST(test_no_answer_is_unknown),
        TEST(test_lists_that_are_none),
        TEST(test_replaced),
        TEST(test_same_name_twice),
        TEST(test_delete_until_gone),
        TEST(test_deleted_in_an_earlier_life),
        TEST(test_names_that_are_used_again),
        TEST(test_delete_that_never_works),
        TEST(test_presence_is_asked_for_once),
        TEST(test_restart),
        TEST(test_dead_strays),
        TEST(test_examine),
        TEST(test_box_without_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
