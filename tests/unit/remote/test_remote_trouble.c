/* The `remote` backend on a provisioner that misbehaves in what it says of boxes, in its lists and its deletes:
 * nothing counts as gone that is not, nothing unknown is taken for dead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "tests/unit/remote/bench.h"

/* --- what is said of boxes --- */

static void test_pending_is_not_dead(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_box found;

    bench_set(rig, "{'pending_s': 1000}");
    bench_special(rig, &r, "0123456789abcdef");
    bench_verdict(rig, &r.box, BACKEND_UNKNOWN);
    assert_true(rig_discover(rig, "0123456789abcdef", &found));
    assert_true(rig_is_listed(rig, r.labels.box_id));
    bench_set(rig, "{'box': {'id': '0123456789abcdef', 'status': 'Unknown'}}");
    bench_verdict(rig, &r.box, BACKEND_UNKNOWN);
    assert_true(rig_is_listed(rig, r.labels.box_id));
    assert_false(rig_discover(rig, "0123456789abcdef", &found));
    bench_set(rig, "{'box': {'id': '0123456789abcdef', 'status': 'SomethingNew'}}");
    bench_verdict(rig, &r.box, BACKEND_UNKNOWN);
    bench_destroy(rig, &r);
    assert_false(rig_discover(rig, "0123456789abcdef", &found));
}

static void test_dead_is_dead(void **state)
{
    static const char *const words[] = {"Failed", "Succeeded", "Terminating", "NotFound"};
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_box found;

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        bench_special(rig, &r, "0123456789abcdef");
        bench_set(rig, "{'box': {'id': '0123456789abcdef', 'status': '%s'}}", words[i]);
        /* NotFound is also what is said of a Pod that cannot be read */
        bench_verdict(rig, &r.box, i == 3 ? BACKEND_ABSENT : BACKEND_DEAD);
        assert_false(rig_discover(rig, "0123456789abcdef", &found));
        assert_false(rig_is_listed(rig, r.labels.box_id));
        bench_destroy(rig, &r);
        bench_verdict(rig, &r.box, BACKEND_ABSENT);
    }
}

static void test_no_answer_is_unknown(void **state)
{
    static const char *const ways[] = {
        "drop",      "hang", "status:500",   "status:401",
        "malformed", "huge", "set:status=7", "set:sandbox_id=\\\"other\\\""};
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_discover d;
    enum backend_verdict verdict;

    bench_create(rig, &r);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        bench_set(rig, "{'rules': [{'on': 'get', 'do': '%s', 'times': -1}]}", ways[i]);
        assert_int_not_equal(rig_check(rig, &r.box, &verdict), SP_OK);
        assert_int_equal(verdict, BACKEND_UNKNOWN);
        memset(&d, 0, sizeof(d));
        str_copy_cut(d.sandbox_id, sizeof(d.sandbox_id), bench_name(&r.box));
        rig->pending++;
        rig->backend->ops->discover(rig->backend, &d, rig_soon(rig), rig_done);
        rig_wait(rig);
        assert_int_not_equal(d.op.result, SP_OK);
        assert_false(d.is_found);
    }
    bench_set(rig, "{'rules': []}");
    bench_destroy(rig, &r);
}

static int list_result(struct rig *rig, size_t *ret_count)
{
    struct backend_list r = {.boxes = NULL};

    rig->pending++;
    rig->backend->ops->list(rig->backend, &r, rig_soon(rig), rig_done);
    rig_wait(rig);
    *ret_count = r.count;
    backend_list_fini(&r);
    return r.op.result;
}

static void test_lists_that_are_none(void **state)
{
    static const char *const ways[] = {
        "drop", "hang",    "status:500",      "status:401",          "status:404",     "malformed",
        "huge", "partial", "set:sandboxes=5", "set:count=\\\"1\\\"", "unset:sandboxes"};
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_box listed;
    bool is_listed;
    size_t count;

    bench_create(rig, &r);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        bench_set(rig, "{'rules': [{'on': 'list', 'do': '%s', 'times': -1}]}", ways[i]);
        assert_int_not_equal(list_result(rig, &count), SP_OK);
        assert_int_equal(count, 0);
    }
    bench_set(rig, "{'rules': [{'on': 'list', 'do': 'unset:count'}]}"); /* not everybody counts */
    assert_true(rig_is_listed(rig, r.labels.box_id));
    /* one bad entry: it is there, with what we know of it */
    bench_set(rig, "{'rules': [{'on': 'list', 'do': 'set:first.sandbox_url=5'}]}");
    assert_int_equal(rig_list(rig, rig->backend, r.labels.box_id, &listed, &is_listed), 1);
    assert_true(is_listed);
    assert_string_equal(listed.url, r.box.url);
    bench_set(rig, "{'rules': [{'on': 'list', 'do': 'set:first.sandbox_id=5'}]}");
    assert_int_equal(list_result(rig, &count), SP_OK);
    assert_int_equal(count, 0);
    bench_destroy(rig, &r);
}

/* --- another one under the same id --- */

static void test_replaced(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_create own;
    struct backend_destroy gone;
    bool is_listed;
    struct backend_box listed;

    bench_create(rig, &own);
    bench_special(rig, &r, "0123456789abcdef");
    bench_set(rig, "{'box': {'id': '0123456789abcdef', 'uid': 'other'}}");
    bench_set(rig, "{'box': {'id': '%s', 'uid': 'other'}}", bench_name(&own.box));
    for (int i = 0; i < 2; i++) {
        bench_verdict(rig, &r.box, BACKEND_DEAD);
        bench_verdict(rig, &own.box, BACKEND_DEAD);
        (void) rig_list(rig, rig->backend, own.labels.box_id, &listed, &is_listed);
        if (is_listed) /* after a restart the pool compares */
            assert_string_not_equal(listed.ref, own.box.ref);
        bench_reopen(rig);
    }
    rig_start_destroy(rig, &gone, &r.box, rig_soon(rig));
    rig_wait(rig);
    assert_int_equal(gone.op.result, SP_OK);
    assert_true(bench_has(rig, "0123456789abcdef")); /* not ours to delete */
    rig_start_destroy(rig, &gone, &own.box, rig_soon(rig));
    rig_wait(rig);
    assert_false(bench_has(rig, bench_name(&own.box))); /* the id is ours, whatever is there */
    bench_set(rig, "{'lose': '0123456789abcdef'}");
}

static void recall(struct rig *rig, const char *ref, const char *life, uint64_t ago_s)
{
    rig->backend->ops->recall(rig->backend, ref, life, ago_s * NS_PER_S);
}

static bool is_gone(struct rig *rig, const char *ref, const char *life)
{
    return rig->backend->ops->is_gone(rig->backend, ref, life);
}

/* What an earlier life has deleted is doubted for as long as this one would, unless it proves to be another. */
static void test_deleted_in_an_earlier_life(void **state)
{
    static const char *const id = "0123456789abcdef";
    struct rig *rig = *state;
    struct backend_box found;
    char ref[512];

    bench_set(rig, "{'add': {'id': '%s'}}", id);
    recall(rig, id, "a-life", 300);
    recall(rig, "", "a-life", 0);
    recall(rig, id, "", 0); /* nothing to recognize it by */
    memset(ref, 'a', sizeof(ref));
    ref[sizeof(ref) - 1] = '\0';
    recall(rig, ref, "a-life", 0);
    assert_true(rig_discover(rig, id, &found));
    assert_false(is_gone(rig, id, "a-life"));

    recall(rig, id, "a-life", 299);
    assert_false(rig_discover(rig, id, &found));
    assert_true(is_gone(rig, id, "a-life"));
    assert_true(is_gone(rig, id, ""));
    assert_false(is_gone(rig, id, "another-life"));
    assert_false(is_gone(rig, "fedcba9876543210", "a-life"));

    (void) snprintf(ref, sizeof(ref), "%s@another-one", id); /* the last word counts */
    recall(rig, ref, "a-life", 0);
    assert_true(rig_discover(rig, id, &found));
    assert_false(is_gone(rig, found.ref, "a-life"));
    assert_true(is_gone(rig, ref, "a-life"));
    recall(rig, found.ref, "a-life", 0);
    assert_true(is_gone(rig, found.ref, "another-life")); /* its container was started again */
    assert_false(rig_discover(rig, id, &found));
    bench_reopen(rig);
    assert_true(rig_discover(rig, id, &found));
    bench_set(rig, "{'reset': true}");
}

/* Kept are those whose name is used again. */
static void test_names_that_are_used_again(void **state)
{
    struct rig *rig = *state;
    const struct backend_ops *ops = rig->backend->ops;

    assert_true(ops->may_return("0123456789abcdef"));
    assert_true(ops->may_return("0123456789abcdef@a-uid"));
    assert_false(ops->may_return("sp-00112233-0123456789abcdef@a-uid"));
    assert_false(ops->may_return(""));
}

/* A thread's second box waits until its first, under the same id, is gone for sure. */
static void same_name_twice(struct rig *rig, bool is_old)
{
    struct backend_create first;
    struct backend_create second;
    struct backend_destroy gone;

    bench_special(rig, &first, "0123456789abcdef");
    bench_set(rig, "{'lingers_s': 0.5, 'rules': [{'on': 'delete', 'do': 'slow:0.3'}]}");
    rig_start_destroy(rig, &gone, &first.box, rig_deadline(rig, 50)); /* not in time */
    bench_start_special(rig, &second, "0123456789abcdef", NULL, rig_soon(rig));
    rig_wait(rig);
    assert_int_equal(gone.op.result, SP_TIMEOUT);
    assert_int_equal(second.op.result, SP_OK);
    if (!is_old) /* else nobody could distinguish them */
        assert_string_not_equal(first.box.ref, second.box.ref);
    rig_start_destroy(rig, &gone, &first.box, rig_soon(rig)); /* asked again, of what is gone */
    rig_wait(rig);
    assert_int_equal(gone.op.result, SP_OK);
    bench_verdict(rig, &second.box, BACKEND_ALIVE);
    bench_set(rig, "{'lingers_s': 0}");
    bench_destroy(rig, &second);
}

static void test_same_name_twice(void **state)
{
    struct rig *rig = *state;

    same_name_twice(rig, false);
    bench_set(rig, "{'old': true}");
    same_name_twice(rig, true);
}

/* --- deletes --- */

static void test_delete_until_gone(void **state)
{
    static const char *const ways[] = {
        "status:500 Partial cleanup", "drop", "hang", "lost", "malformed", "status:503"};
    struct rig *rig = *state;
    struct backend_create r;

    for (int old = 0; old < 2; old++) {
        bench_set(rig, "{'old': %s, 'lingers_s': 0.4}", old == 1 ? "true" : "false");
        for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
            bench_create(rig, &r);
            bench_set(rig,
                      "{'rules': [{'on': 'delete', 'do': '%s', 'times': 2}, {'on': 'presence', "
                      "'do': 'status:500'}, {'on': 'presence', 'do': 'unset:exists'}]}",
                      ways[i]);
            bench_destroy(rig, &r);
            if (old == 0) /* an older one forgets a box before its Pod is gone: nobody can know */
                assert_false(bench_has(rig, bench_name(&r.box)));
        }
        bench_set(rig, "{'rules': []}");
    }
    rig_pause(rig, 500);
    assert_int_equal(bench_count(rig), 0);
}

static void test_delete_that_never_works(void **state)
{
    static const char *const ways[] = {"status:500", "status:401", "hang"};
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_destroy gone;

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        bench_create(rig, &r);
        bench_set(rig, "{'rules': [{'on': 'delete', 'do': '%s', 'times': -1}]}", ways[i]);
        rig_start_destroy(rig, &gone, &r.box, rig_deadline(rig, 700));
        rig_wait(rig);
        assert_int_not_equal(gone.op.result, SP_OK);
        assert_true(bench_has(rig, bench_name(&r.box)));
        assert_true(rig_is_listed(rig, r.labels.box_id)); /* or the pool would think it is gone */
        bench_set(rig, "{'box': {'id': '%s', 'status': 'Failed'}}", bench_name(&r.box));
        assert_true(rig_is_listed(rig, r.labels.box_id));
        bench_set(rig, "{'rules': []}");
        bench_destroy(rig, &r);
        assert_false(bench_has(rig, bench_name(&r.box)));
    }
}

static void test_presence_is_asked_for_once(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;
    size_t before = bench_asked(rig, "presence", NULL);

    bench_set(rig, "{'old': true}");
    for (int i = 0; i < 3; i++) {
        bench_create(rig, &r);
        assert_null(strchr(r.box.ref, '@'));
        bench_destroy(rig, &r);
    }
    assert_int_equal(bench_asked(rig, "presence", NULL), before + 1);
}

/* --- after a restart --- */

static void test_restart(void **state)
{
    struct rig *rig = *state;
    struct backend_create own;
    struct backend_create r;
    struct backend_box listed;
    bool is_listed;

    bench_create(rig, &own);
    bench_special(rig, &r, "0123456789abcdef");
    bench_set(rig, "{'add': {'id': 'somebodyelse'}}");
    bench_reopen(rig);
    assert_int_equal(rig_list(rig, rig->backend, own.labels.box_id, &listed, &is_listed), 3);
    assert_true(is_listed);
    assert_string_equal(listed.labels.instance, rig_instance());
    assert_string_equal(listed.labels.profile, ""); /* nobody knows: it is nobody's any more */
    assert_string_equal(listed.ref, own.box.ref);
    assert_false(rig_is_listed(rig, r.labels.box_id));
    bench_verdict(rig, &r.box, BACKEND_ALIVE);
    bench_destroy(rig, &r);
    bench_destroy(rig, &own);
    assert_true(bench_has(rig, "somebodyelse"));
    bench_set(rig, "{'lose': 'somebodyelse'}");
}

static void test_dead_strays(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;

    bench_create(rig, &r);
    bench_set(rig, "{'box': {'id': '%s', 'status': 'Failed'}}", bench_name(&r.box));
    bench_reopen(rig);
    assert_int_equal(bench_count(rig), 0);
    rig_pause(rig, 100);
    assert_true(bench_has(rig, bench_name(&r.box))); /* a destroy may be on its way */
    assert_int_equal(bench_count(rig), 0);
    for (int i = 0; i < 100 && bench_has(rig, bench_name(&r.box)); i++)
        rig_pause(rig, 50);
    assert_false(bench_has(rig, bench_name(&r.box)));
}

/* --- what a doctor finds --- */

static enum backend_finding_level worst_finding(struct rig *rig, const char *subject)
{
    struct backend_exam exam = {.findings = NULL};
    enum backend_finding_level worst = BACKEND_FINDING_OK;

    rig->pending++;
    rig->backend->ops->examine(rig->backend, &exam, rig_deadline(rig, 30000), rig_done);
    rig_wait(rig);
    assert_int_equal(exam.op.result, SP_OK);
    for (size_t i = 0; i < exam.count; i++) {
        assert_null(strstr(exam.findings[i].text, BENCH_KEY));
        if (strcmp(exam.findings[i].subject, subject) == 0)
            worst = MAX_OF(worst, exam.findings[i].level);
    }
    backend_exam_fini(&exam);
    return worst;
}

static void test_examine(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(worst_finding(rig, "key"), BACKEND_FINDING_OK);
    bench_set(rig, "{'key': 'another'}");
    assert_int_equal(worst_finding(rig, "key"), BACKEND_FINDING_FAIL);
    bench_set(rig, "{'key': '" BENCH_KEY "', 'old': true}");
    assert_int_equal(worst_finding(rig, "capabilities"), BACKEND_FINDING_OK);
    bench_set(rig, "{'rules': [{'on': 'health', 'do': 'drop', 'times': -1}]}");
    assert_int_equal(worst_finding(rig, "provisioner"), BACKEND_FINDING_FAIL);
}

static void test_box_without_agent(void **state)
{
    static const struct backend_env_var envs[] = {{"A", "b"}};
    const struct backend_extras extras = {.envs = envs, .env_count = 1};
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_update update;

    bench_create(rig, &r);
    bench_set(rig, "{'has_agent': false}");
    rig_start_update(rig, &update, &r.box, &extras, rig_soon(rig));
    rig_wait(rig);
    assert_int_equal(update.op.result, SP_UNSUPPORTED);
    bench_destroy(rig, &r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_set_up, bench_tear_down)

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
