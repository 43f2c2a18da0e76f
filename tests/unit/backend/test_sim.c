/* The `sim` backend with the machine in this process: the contract, and the faults it can play. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backends/registry.h"
#include "backends/sim/sim.h"
#include "base/str.h"
#include "tests/unit/backend/conformance.h"

enum { LONG = 3000 }; /* boxes, more than are listed in one part */

static bool kill_box(struct rig *rig, uint64_t box_id)
{
    return sim_kill(rig->backend, box_id, "killed by the test");
}

static int set_up(void **state)
{
    struct rig *rig = test_calloc(1, sizeof(*rig));

    rig->ops = backend_by_name("sim");
    assert_non_null(rig->ops);
    str_copy_cut(rig->profile.name, sizeof(rig->profile.name), "default");
    rig->profile.sim.create_ms = 2;
    rig->profile.sim.create_jitter_ms = 3;
    rig->profile.sim.destroy_ms = 1;
    rig->slow = rig->profile;
    rig->slow.sim.create_ms = 100;
    rig->kill_box = kill_box;
    rig_open(rig);
    assert_ptr_equal(rig->backend->ops, &sim_ops);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;

    rig_close(rig);
    test_free(rig);
    return 0;
}

static void test_box_needs_no_probe(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;

    assert_int_equal(rig_create(rig, &r, &rig->profile), SP_OK);
    assert_true(r.box.is_ready);
    assert_memory_equal(r.box.url, "sim://", 6);
    assert_string_equal(r.box.url + 6, r.box.ref);
}

static void test_failing_machine(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;

    rig->profile.sim.fail_percent = 100;
    assert_int_equal(rig_create(rig, &r, &rig->profile), SP_BACKEND_FAILED);
    assert_true(strlen(r.op.err.msg) > 0);
    assert_false(rig_is_listed(rig, r.labels.box_id));
}

static void test_hanging_machine(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;

    rig->profile.sim.hang_percent = 100;
    rig_start_create(rig, &r, &rig->profile, 0, rig_deadline(rig, 30));
    rig_wait(rig);
    assert_int_equal(r.op.result, SP_TIMEOUT);
    assert_true(rig_is_listed(rig, r.labels.box_id)); /* the answer was lost, not the box */
    assert_int_equal(rig_destroy(rig, rig->backend, &r.labels), SP_OK);
    assert_false(rig_is_listed(rig, r.labels.box_id));
}

static void test_cancelled_destroy_removes_nothing(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_destroy gone;

    assert_int_equal(rig_create(rig, &r, &rig->profile), SP_OK);
    rig->profile.sim.destroy_ms = 1000;
    rig_start_destroy(rig, &gone, &r.box, rig_soon(rig));
    rig_cancel(rig, &gone.op);
    rig_wait(rig);
    assert_int_equal(gone.op.result, SP_CANCELLED);
    assert_true(rig_is_listed(rig, r.labels.box_id));
}

static void test_deaths_not_reported_at_close(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;

    assert_int_equal(rig_create(rig, &r, &rig->profile), SP_OK);
    assert_true(sim_kill(rig->backend, r.labels.box_id, "late"));
    rig_close_backend(rig, rig->backend);
    assert_int_equal(rig->death_count, 0);
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
    struct rig *rig = *state;
    struct backend_create *made = test_calloc(LONG, sizeof(*made));
    struct backend_list list = {.boxes = NULL};
    struct backend_destroy gone;
    struct backend_create late;

    rig->profile.sim.create_ms = 0;
    rig->profile.sim.create_jitter_ms = 0;
    for (size_t i = 0; i < LONG; i++)
        rig_start_create(rig, &made[i], &rig->profile, 0, rig_soon(rig));
    rig_wait(rig);
    rig->pending++;
    rig->is_calling = true;
    rig->backend->ops->list(rig->backend, &list, rig_soon(rig), rig_done);
    rig->is_calling = false;
    assert_int_equal(list.op.state, OP_RUNNING);
    assert_in_range(list.count, 1, LONG / 2);
    rig->profile.sim.destroy_ms = 0;
    rig_start_destroy(rig, &gone, &made[0].box, rig_soon(rig));
    rig_start_create(rig, &late, &rig->profile, 0, rig_soon(rig)); /* it gets the place */
    rig_wait(rig);
    assert_int_equal(list.op.result, SP_OK);
    for (size_t i = 1; i < LONG; i += 7)
        assert_true(shows(&list, made[i].labels.box_id));
    assert_in_range(list.count, LONG - 1, LONG + 1);
    backend_list_cut(&list, LONG / 2);
    assert_int_equal(list.count, LONG / 2);
    assert_int_equal(list.boxes[LONG / 2 - 1].labels.box_id, made[LONG / 2 - 1].labels.box_id);
    backend_list_cut(&list, 0);
    assert_null(list.boxes);

    rig->pending++;
    rig->backend->ops->list(rig->backend, &list, rig_soon(rig), rig_done);
    rig_cancel(rig, &list.op);
    rig_wait(rig);
    assert_int_equal(list.op.result, SP_CANCELLED); /* half a list is none */
    assert_int_equal(list.count, 0);
    backend_list_fini(&list);

    rig->pending++; /* and one that is under way ends with its backend */
    rig->backend->ops->list(rig->backend, &list, rig_soon(rig), rig_done);
    rig_close_backend(rig, rig->backend);
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
