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
        cmocka_unit_test_setup_teardown(test_deaths_not_reported_at_close, set_up, tear_down),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
