/* The `sim` backend with the machine in this process: the contract, and the faults it can play. */
#include <string.h>

#include "backends/registry.h"
#include "backends/sim/sim.h"
#include "base/str.h"
#include "tests/lib/unit.h"
#include "tests/unit/backend/conformance.h"

enum { LONG = 3000 }; /* boxes, more than are listed in one part */

static bool kill_box(struct fixture *fixture, uint64_t box_id)
{
    return sim_kill(fixture->backend, box_id, "killed by the test");
}

static int set_up(void **state)
{
    struct fixture *fixture = test_calloc(1, sizeof(*fixture));

    fixture->ops = backend_by_name("sim");
    assert_non_null(fixture->ops);
    str_copy_cut(fixture->profile.name, sizeof(fixture->profile.name), "default");
    fixture->profile.sim.create_ms = 2;
    fixture->profile.sim.create_jitter_ms = 3;
    fixture->profile.sim.destroy_ms = 1;
    fixture->slow = fixture->profile;
    fixture->slow.sim.create_ms = 100;
    fixture->kill_box = kill_box;
    fixture_open(fixture);
    assert_ptr_equal(fixture->backend->ops, &sim_ops);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    fixture_close(fixture);
    test_free(fixture);
    return 0;
}

static void test_box_needs_no_probe(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;

    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    assert_true(r.box.is_ready);
    assert_memory_equal(r.box.url, "sim://", 6);
    assert_string_equal(r.box.url + 6, r.box.ref);
}

static void test_failing_machine(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;

    fixture->profile.sim.fail_percent = 100;
    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_BACKEND_FAILED);
    assert_true(strlen(r.op.err.msg) > 0);
    assert_false(fixture_is_listed(fixture, r.labels.box_id));
}

static void test_hanging_machine(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;

    fixture->profile.sim.hang_percent = 100;
    fixture_start_create(fixture, &r, &fixture->profile, 0, fixture_deadline(fixture, 30));
    fixture_wait(fixture);
    assert_int_equal(r.op.result, SP_TIMEOUT);
    assert_true(fixture_is_listed(fixture, r.labels.box_id)); /* the answer was lost, not the box */
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
    assert_false(fixture_is_listed(fixture, r.labels.box_id));
}

static void test_cancelled_destroy_removes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_destroy gone;

    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    fixture->profile.sim.destroy_ms = 1000;
    fixture_start_destroy(fixture, &gone, &r.box, fixture_soon(fixture));
    fixture_cancel(fixture, &gone.op);
    fixture_wait(fixture);
    assert_int_equal(gone.op.result, SP_CANCELLED);
    assert_true(fixture_is_listed(fixture, r.labels.box_id));
}

static void test_deaths_not_reported_at_close(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;

    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    assert_true(sim_kill(fixture->backend, r.labels.box_id, "late"));
    fixture_close_backend(fixture, fixture->backend);
    assert_int_equal(fixture->death_count, 0);
}

static bool shows(const struct backend_list *list, uint64_t box_id)
{
    bool is_shown = false;

    for (size_t i = 0; i < list->count; i++) {
        if (list->boxes[i].labels.box_id != box_id)
            continue;
        assert_false(is_shown); /* once */
        is_shown = true;
    }
    return is_shown;
}

/* Very many boxes are not listed in one turn of the loop. Those that are there all the time are in it, once. */
static void test_long_listing(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create *made = test_calloc(LONG, sizeof(*made));
    struct backend_list list = {.boxes = NULL};
    struct backend_destroy gone;
    struct backend_create late;

    fixture->profile.sim.create_ms = 0;
    fixture->profile.sim.create_jitter_ms = 0;
    for (size_t i = 0; i < LONG; i++)
        fixture_start_create(fixture, &made[i], &fixture->profile, 0, fixture_soon(fixture));
    fixture_wait(fixture);
    fixture->pending++;
    fixture->is_calling = true;
    fixture->backend->ops->list(fixture->backend, &list, fixture_soon(fixture), fixture_done);
    fixture->is_calling = false;
    assert_int_equal(list.op.state, OP_RUNNING);
    assert_in_range(list.count, 1, LONG / 2);
    fixture->profile.sim.destroy_ms = 0;
    fixture_start_destroy(fixture, &gone, &made[0].box, fixture_soon(fixture));
    fixture_start_create(fixture, &late, &fixture->profile, 0,
                         fixture_soon(fixture)); /* it gets the place */
    fixture_wait(fixture);
    assert_int_equal(list.op.result, SP_OK);
    for (size_t i = 1; i < LONG; i += 7)
        assert_true(shows(&list, made[i].labels.box_id));
    assert_in_range(list.count, LONG - 1, LONG + 1);
    backend_list_cut(&list, LONG / 2);
    assert_int_equal(list.count, LONG / 2);
    assert_int_equal(list.boxes[LONG / 2 - 1].labels.box_id, made[LONG / 2 - 1].labels.box_id);
    backend_list_cut(&list, 0);
    assert_null(list.boxes);

    fixture->pending++;
    fixture->backend->ops->list(fixture->backend, &list, fixture_soon(fixture), fixture_done);
    fixture_cancel(fixture, &list.op);
    fixture_wait(fixture);
    assert_int_equal(list.op.result, SP_CANCELLED); /* half a list is none */
    assert_int_equal(list.count, 0);
    backend_list_fini(&list);

    fixture->pending++; /* and one that is under way ends with its backend */
    fixture->backend->ops->list(fixture->backend, &list, fixture_soon(fixture), fixture_done);
    fixture_close_backend(fixture, fixture->backend);
    assert_int_equal(list.op.result, SP_CANCELLED);
    test_free(made);
}

static void test_names(void **state)
{
    (void) state;
    for (const char *const *n = config_backends; *n != NULL; n++)
        assert_string_equal(backend_by_name(*n)->name, *n);
    assert_ptr_equal(backend_by_name("sim"), &sim_ops);
    assert_null(backend_by_name("no such backend"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONFORMANCE_TESTS(set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_box_needs_no_probe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failing_machine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hanging_machine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancelled_destroy_removes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_listing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deaths_not_reported_at_close, set_up, tear_down),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
