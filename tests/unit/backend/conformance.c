/* conformance.c - the contract of backend/backend.h, one test for each of its sentences. Each test
 * leaves the backend without boxes. */
#include "tests/unit/backend/conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tests/lib/at_most.h"
#include "tests/lib/unit.h"

enum { MANY = 50, MANY_MS = 100000 }; /* engines on a busy machine take a second for each */

static void assert_verdict(struct fixture *fixture, const struct backend_box *box,
                           enum backend_verdict want)
{
    enum backend_verdict verdict;

    assert_int_equal(fixture_check(fixture, box, &verdict), SP_OK);
    if (want == BACKEND_DEAD && verdict == BACKEND_ABSENT)
        return; /* as sure as some backends can be */
    assert_int_equal(verdict, want);
}

static void assert_labels(const struct backend_labels *got, const struct backend_labels *want)
{
    assert_true(got->box_id == want->box_id);
    assert_true(got->spec_hash == want->spec_hash);
    assert_int_equal(got->generation, want->generation);
    assert_true(got->principal == want->principal);
    assert_string_equal(got->instance, want->instance);
    assert_string_equal(got->profile, want->profile);
    assert_string_equal(got->sandbox_id, want->sandbox_id);
    assert_string_equal(got->user, want->user);
    assert_string_equal(got->thread, want->thread);
}

static void set_owner(struct backend_labels *labels, const char *sandbox_id)
{
    str_copy_cut(labels->sandbox_id, sizeof(labels->sandbox_id), sandbox_id);
    str_copy_cut(labels->user, sizeof(labels->user), "ann & co?=/%");
    str_copy_cut(labels->thread, sizeof(labels->thread), "thread \"1\" \xc3\xa9");
    labels->generation = 7;
    labels->principal = 1ULL << 63 | 5;
}

static size_t count_boxes(struct fixture *fixture)
{
    bool is_listed;

    return fixture_list(fixture, fixture->backend, 0, NULL, &is_listed);
}

void conformance_life(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_box listed;
    bool is_listed;

    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    assert_labels(&r.box.labels, &r.labels);
    assert_string_equal(r.box.token, r.token);
    assert_true(strlen(r.box.url) > 0);
    assert_true(strlen(r.box.ref) > 0);
    assert_verdict(fixture, &r.box, BACKEND_ALIVE);
    assert_int_equal(fixture_list(fixture, fixture->backend, r.labels.box_id, &listed, &is_listed),
                     1);
    assert_true(is_listed);
    assert_labels(&listed.labels, &r.labels);
    assert_string_equal(listed.url, r.box.url);
    assert_string_equal(listed.ref, r.box.ref);

    if (fixture->backend->ops->can_bind) {
        set_owner(&r.box.labels, "fe0dc8182dec7b77");
        assert_int_equal(fixture_bind(fixture, &r.box), SP_OK);
        (void) fixture_list(fixture, fixture->backend, r.labels.box_id, &listed, &is_listed);
        assert_labels(&listed.labels, &r.box.labels);
        assert_string_equal(listed.token, r.box.token);
        assert_verdict(fixture, &r.box, BACKEND_ALIVE);
    }
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
    assert_verdict(fixture, &r.box, BACKEND_DEAD);
    assert_int_equal(count_boxes(fixture), 0);
}

void conformance_create_is_idempotent(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create first;
    struct backend_create second;
    struct backend_create third;

    fixture_start_create(fixture, &first, &fixture->profile, 0, fixture_soon(fixture));
    fixture_start_create(fixture, &second, &fixture->profile, first.labels.box_id,
                         fixture_soon(fixture));
    fixture_wait(fixture);
    assert_int_equal(first.op.result, SP_OK);
    assert_int_equal(second.op.result, SP_OK);
    fixture_start_create(fixture, &third, &fixture->profile, first.labels.box_id,
                         fixture_soon(fixture));
    fixture_wait(fixture);
    assert_int_equal(third.op.result, SP_OK);
    assert_string_equal(second.box.url, first.box.url);
    assert_string_equal(third.box.url, first.box.url);
    assert_string_equal(third.box.ref, first.box.ref);
    assert_int_equal(count_boxes(fixture), 1);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &first.labels), SP_OK);
    assert_int_equal(count_boxes(fixture), 0);
}

void conformance_destroy_of_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct backend_labels labels = {.box_id = 0x1122334455667788ULL};
    struct backend_create r;

    str_copy_cut(labels.instance, sizeof(labels.instance), fixture_instance());
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &labels), SP_OK);
    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
}

void conformance_discover(void **state)
{
    static const char odd_id[] = "odd id/with?signs&=%";
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_box found;

    if (!fixture->backend->ops->can_discover || !fixture->backend->ops->can_bind)
        skip();
    assert_false(fixture_discover(fixture, odd_id, &found));
    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    assert_false(fixture_discover(fixture, odd_id, &found));
    set_owner(&r.box.labels, odd_id);
    assert_int_equal(fixture_bind(fixture, &r.box), SP_OK);
    assert_true(fixture_discover(fixture, odd_id, &found));
    assert_labels(&found.labels, &r.box.labels);
    assert_string_equal(found.url, r.box.url);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
    assert_false(fixture_discover(fixture, odd_id, &found));
}

void conformance_bind_of_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct backend_box box = {.labels = {.box_id = 0x1122334455667788ULL}};

    if (!fixture->backend->ops->can_bind)
        skip();
    str_copy_cut(box.labels.instance, sizeof(box.labels.instance), fixture_instance());
    assert_int_equal(fixture_bind(fixture, &box), SP_NOT_FOUND);
    assert_int_equal(count_boxes(fixture), 0);
}

/* Cancelled at any moment: what comes is either a box (truth wins) or SP_CANCELLED, and after a
 * destroy nothing is there, also later. */
void conformance_cancelled_create(void **state)
{
    static const uint64_t after_ms[] = {0, 1, 3, 10, 30};
    struct fixture *fixture = *state;
    struct backend_create r;

    for (size_t i = 0; i < ARRAY_LEN(after_ms); i++) {
        fixture_start_create(fixture, &r, &fixture->slow, 0, fixture_soon(fixture));
        if (after_ms[i] > 0)
            fixture_pause(fixture, after_ms[i]);
        if (fixture->pending > 0)
            fixture_cancel(fixture, &r.op);
        fixture_wait(fixture);
        assert_true(r.op.result == SP_CANCELLED || r.op.result == SP_OK);
        assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
        assert_false(fixture_is_listed(fixture, r.labels.box_id));
    }
    fixture_pause(fixture, 200);
    assert_int_equal(count_boxes(fixture), 0);
}

void conformance_late_create(void **state)
{
    static const uint64_t within_ms[] = {0, 1, 20};
    struct fixture *fixture = *state;
    struct backend_create r;

    for (size_t i = 0; i < ARRAY_LEN(within_ms); i++) {
        uint64_t start_ns = fixture_deadline(fixture, 0);

        fixture_start_create(fixture, &r, &fixture->slow, 0,
                             fixture_deadline(fixture, within_ms[i]));
        fixture_wait(fixture);
        assert_int_equal(r.op.result, SP_TIMEOUT);
        assert_true(fixture_deadline(fixture, 0) - start_ns < at_most(5 * NS_PER_S));
        assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
        assert_false(fixture_is_listed(fixture, r.labels.box_id));
    }
    fixture_pause(fixture, 200);
    assert_int_equal(count_boxes(fixture), 0);
}

/* A check that was cut short knows nothing; a list that was cut short is no list. */
void conformance_cancelled_reads(void **state)
{
    struct fixture *fixture = *state;
    struct backend_list list = {.boxes = NULL};
    struct backend_check check = {.verdict = BACKEND_UNKNOWN};
    struct backend_create r;

    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    check.box = r.box;
    fixture->pending += 2;
    fixture->is_calling = true;
    fixture->backend->ops->list(fixture->backend, &list, fixture_soon(fixture), fixture_done);
    fixture->backend->ops->is_alive(fixture->backend, &check, fixture_soon(fixture), fixture_done);
    fixture->is_calling = false;
    fixture_cancel(fixture, &list.op);
    fixture_cancel(fixture, &check.op);
    fixture_wait(fixture);
    assert_true(list.op.result == SP_CANCELLED || (list.op.result == SP_OK && list.count == 1));
    assert_true(check.op.result == SP_CANCELLED ||
                (check.op.result == SP_OK && check.verdict == BACKEND_ALIVE));
    backend_list_fini(&list);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
}

void conformance_many_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create *made = test_calloc(MANY, sizeof(*made));
    struct backend_destroy *gone = test_calloc(MANY, sizeof(*gone));

    for (size_t i = 0; i < MANY; i++)
        fixture_start_create(fixture, &made[i], &fixture->profile, 0,
                             fixture_deadline(fixture, MANY_MS));
    fixture_wait(fixture);
    for (size_t i = 0; i < MANY; i++) {
        if (made[i].op.result != SP_OK)
            print_error("box %zu: %s\n", i, made[i].op.err.msg);
        assert_int_equal(made[i].op.result, SP_OK);
        assert_labels(&made[i].box.labels, &made[i].labels);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(made[i].box.url, made[j].box.url);
    }
    assert_int_equal(count_boxes(fixture), MANY);
    for (size_t i = 0; i < MANY; i++)
        fixture_start_destroy(fixture, &gone[i], &made[i].box, fixture_deadline(fixture, MANY_MS));
    fixture_wait(fixture);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(gone[i].op.result, SP_OK);
    assert_int_equal(count_boxes(fixture), 0);
    test_free(made);
    test_free(gone);
}

void conformance_death_is_reported(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create doomed;
    struct backend_create other;

    if (!fixture->backend->ops->is_watched || fixture->kill_box == NULL)
        skip();
    assert_int_equal(fixture_create(fixture, &doomed, &fixture->profile), SP_OK);
    assert_int_equal(fixture_create(fixture, &other, &fixture->profile), SP_OK);
    fixture->is_calling = true;
    assert_true(fixture->kill_box(fixture, doomed.labels.box_id));
    fixture->is_calling = false;
    assert_true(fixture_wait_death(fixture, doomed.labels.box_id, 5000));
    assert_verdict(fixture, &doomed.box, BACKEND_DEAD);
    assert_verdict(fixture, &other.box, BACKEND_ALIVE);
    /* What we destroy ourselves is no death. */
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &other.labels), SP_OK);
    assert_false(fixture_wait_death(fixture, other.labels.box_id, 100));
}

void conformance_other_instance(void **state)
{
    struct fixture *fixture = *state;
    struct backend *other = fixture_open_other(fixture, "somebody else");
    struct backend_create r;
    bool is_listed;

    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    assert_int_equal(fixture_list(fixture, other, r.labels.box_id, NULL, &is_listed), 0);
    assert_false(is_listed);
    assert_int_equal(fixture_destroy(fixture, other, &r.labels), SP_OK);
    assert_verdict(fixture, &r.box, BACKEND_ALIVE);
    fixture_close_backend(fixture, other);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
}

/* Each is completed once, before on_closed(): fixture_close_backend() asserts that. */
static const struct backend_env_var some_envs[] = {{"GREETING", "good \"day\" \xc3\xa9"},
                                                   {"EMPTY", ""}};

void conformance_update(void **state)
{
    const struct backend_extras extras = {.envs = some_envs, .env_count = ARRAY_LEN(some_envs)};
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_update update;

    if (fixture->backend->ops->update == NULL)
        skip();
    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    fixture_wait_ready(fixture, &r.box);
    for (int i = 0; i < 2; i++) { /* again is no trouble */
        fixture_start_update(fixture, &update, &r.box, &extras, fixture_soon(fixture));
        fixture_wait(fixture);
        if (update.op.result != SP_OK)
            fail_msg("%s", update.op.err.msg);
    }
    assert_verdict(fixture, &r.box, BACKEND_ALIVE);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
    fixture_start_update(fixture, &update, &r.box, &extras, fixture_soon(fixture));
    fixture_wait(fixture);
    assert_int_not_equal(update.op.result, SP_OK);
    assert_true(strlen(update.op.err.msg) > 0);
    assert_int_equal(count_boxes(fixture), 0);
}

/* By a cancel, by the box's end, by the backend's. */
void conformance_update_that_ends_early(void **state)
{
    static const struct backend_env_var slow[] = {{"SIM_UPDATE_MS", "20000"}};
    const struct backend_extras extras = {.envs = slow, .env_count = ARRAY_LEN(slow)};
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_update update;
    struct backend_destroy gone;

    if (fixture->backend->ops->update == NULL)
        skip();
    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    fixture_wait_ready(fixture, &r.box);
    fixture_start_update(fixture, &update, &r.box, &extras, fixture_soon(fixture));
    fixture_cancel(fixture, &update.op);
    fixture_wait(fixture);
    assert_true(update.op.result == SP_CANCELLED || update.op.result == SP_OK);
    fixture_start_update(fixture, &update, &r.box, &extras, fixture_deadline(fixture, 50));
    fixture_wait(fixture);
    assert_true(update.op.result == SP_TIMEOUT || update.op.result == SP_OK);
    assert_verdict(fixture, &r.box, BACKEND_ALIVE);

    fixture_start_update(fixture, &update, &r.box, &extras, fixture_deadline(fixture, 2000));
    fixture_start_destroy(fixture, &gone, &r.box, fixture_soon(fixture));
    fixture_wait(fixture);
    assert_int_equal(gone.op.result, SP_OK);
    assert_int_equal(count_boxes(fixture), 0);

    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    fixture_wait_ready(fixture, &r.box);
    fixture_start_update(fixture, &update, &r.box, &extras, fixture_soon(fixture));
    fixture_close_backend(fixture, fixture->backend);
    assert_int_equal(fixture->pending, 0);
    assert_true(update.op.result == SP_CANCELLED || update.op.result == SP_OK);
    fixture->backend = fixture_open_other(fixture, fixture_instance());
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
}

static int stats(struct fixture *fixture, struct backend_stats *r, const struct backend_box *box,
                 bool is_cancelled)
{
    *r = (struct backend_stats){.box = *box};
    fixture->pending++;
    fixture->is_calling = true;
    fixture->backend->ops->stats(fixture->backend, r, fixture_soon(fixture), fixture_done);
    fixture->is_calling = false;
    if (is_cancelled)
        fixture_cancel(fixture, &r->op);
    fixture_wait(fixture);
    return r->op.result;
}

static void assert_grown(struct backend_count was, struct backend_count is)
{
    assert_true(was.is_known == is.is_known);
    assert_true(is.n >= was.n);
}

/* Numbers only grow, but for the memory; a box that is not there has none. */
void conformance_stats(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_stats first;
    struct backend_stats second;

    if (fixture->backend->ops->stats == NULL)
        skip();
    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    fixture_wait_ready(fixture, &r.box);
    assert_int_equal(stats(fixture, &first, &r.box, false), SP_OK);
    assert_int_equal(stats(fixture, &second, &r.box, false), SP_OK);
    assert_true(first.counters.cpu_us.is_known && first.counters.memory.is_known);
    assert_true(second.counters.memory.n > 0);
    assert_grown(first.counters.cpu_us, second.counters.cpu_us);
    assert_grown(first.counters.net_in, second.counters.net_in);
    assert_grown(first.counters.net_out, second.counters.net_out);
    assert_grown(first.counters.disk_read, second.counters.disk_read);
    assert_grown(first.counters.disk_write, second.counters.disk_write);
    (void) stats(fixture, &first, &r.box, true);
    assert_true(first.op.result == SP_CANCELLED || first.op.result == SP_OK);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
    assert_int_not_equal(stats(fixture, &first, &r.box, false), SP_OK);
    assert_true(strlen(first.op.err.msg) > 0);
    assert_false(first.counters.cpu_us.is_known);
}

void conformance_examine(void **state)
{
    struct fixture *fixture = *state;
    struct backend_exam exam = {.findings = NULL};

    if (fixture->backend->ops->examine == NULL)
        skip();
    fixture->pending++;
    fixture->is_calling = true;
    fixture->backend->ops->examine(fixture->backend, &exam, fixture_deadline(fixture, 30000),
                                   fixture_done);
    fixture->is_calling = false;
    fixture_wait(fixture);
    assert_int_equal(exam.op.result, SP_OK);
    assert_true(exam.count > 0);
    for (size_t i = 0; i < exam.count; i++) {
        assert_true(exam.findings[i].level < BACKEND_FINDING_LEVEL_COUNT);
        assert_true(strlen(exam.findings[i].subject) > 0);
        assert_true(strlen(exam.findings[i].text) > 0);
    }
    backend_exam_fini(&exam);
}

void conformance_close_in_flight(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r[8];
    struct backend_list list = {.boxes = NULL};
    struct backend_destroy gone;
    struct backend_box box = {.is_ready = false};

    for (size_t i = 0; i < ARRAY_LEN(r); i++)
        fixture_start_create(fixture, &r[i], &fixture->slow, 0, fixture_soon(fixture));
    box.labels = r[0].labels;
    fixture->pending++;
    fixture->is_calling = true;
    fixture->backend->ops->list(fixture->backend, &list, fixture_soon(fixture), fixture_done);
    fixture->is_calling = false;
    fixture_start_destroy(fixture, &gone, &box, fixture_soon(fixture));
    fixture_close_backend(fixture, fixture->backend);
    assert_int_equal(fixture->pending, 0);
    for (size_t i = 0; i < ARRAY_LEN(r); i++)
        assert_true(r[i].op.result == SP_CANCELLED || r[i].op.result == SP_OK);
    backend_list_fini(&list);

    /* A new one finds what is left and removes it. */
    fixture->backend = fixture_open_other(fixture, fixture_instance());
    for (size_t i = 0; i < ARRAY_LEN(r); i++)
        assert_int_equal(fixture_destroy(fixture, fixture->backend, &r[i].labels), SP_OK);
    assert_int_equal(count_boxes(fixture), 0);
}
