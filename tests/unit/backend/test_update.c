/* The course of an update: which steps are taken, what a failure and a cancel do to it. */
#include <stdlib.h>
#include <string.h>

#include "backend/update.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "tests/lib/unit.h"

static struct {
    struct rt rt;
    struct closing closing;
    struct backend_update request;
    struct op inner; /* what a step of the backend waits for */
    unsigned limits;
    unsigned mounts;
    unsigned finis;
    unsigned cancels;
    unsigned dones;
} w;

static void on_inner_cancel(struct op *op)
{
    w.cancels++;
    op_finish(op, SP_CANCELLED, NULL);
}

static void on_inner(struct op *op)
{
    struct updating *u = w.request.priv;

    updating_next(u, op->result, &op->err);
}

static void wait_in(struct updating *u, void (*on_cancel)(struct op *))
{
    op_begin(&w.inner, &w.rt, &w.closing.inner, RT_NEVER, on_cancel, on_inner);
    u->at_work = on_cancel != NULL ? &w.inner : NULL;
}

static void limit(struct updating *u)
{
    w.limits++;
    wait_in(u, NULL);
}

static void mount_all(struct updating *u)
{
    w.mounts++;
    wait_in(u, on_inner_cancel);
}

static void fini(struct updating *u UNUSED)
{
    w.finis++;
}

static bool free_owner(struct closing *c UNUSED)
{
    return true;
}

static void on_done(struct op *op UNUSED)
{
    w.dones++;
}

static const struct backend_mount one_mount = {.host_path = "/srv", .box_path = "/srv"};

static void begin(bool has_look, uint64_t memory, size_t mount_count, int rc)
{
    static struct updating_ops ops;
    struct updating *u = xcalloc(1, sizeof(*u));
    struct err err;

    ops = (struct updating_ops){
        .limit = limit, .mount = mount_all, .fini = fini, .has_look = has_look};
    memset(&w, 0, sizeof(w));
    rt_init_fake(&w.rt, 0, 0);
    closing_init(&w.closing, &w.rt, free_owner);
    w.request.extras.memory = memory;
    w.request.extras.mounts = &one_mount;
    w.request.extras.mount_count = mount_count;
    updating_begin(u, &ops, &w.request, &w.closing, NULL, RT_NEVER, on_done);
    updating_next(u, rc != SP_OK ? err_set(&err, rc, "refused") : SP_OK, &err);
}

/* The step that waits has ended. */
static void step(int result)
{
    op_finish(&w.inner, result, NULL);
    rt_run(&w.rt);
}

static void end(int result)
{
    rt_run(&w.rt);
    assert_int_equal(w.dones, 1);
    assert_int_equal(w.finis, 1);
    assert_int_equal(w.request.op.result, result);
    assert_null(w.request.priv);
    rt_fini(&w.rt);
}

static void test_order(void **state)
{
    (void) state;
    begin(false, 1, 1, SP_OK);
    assert_int_equal(w.limits, 1);
    assert_int_equal(w.mounts, 0);
    step(SP_OK);
    assert_int_equal(w.mounts, 1);
    step(SP_OK);
    end(SP_OK);
}

static void test_only_what_is_asked_for(void **state)
{
    (void) state;
    begin(false, 0, 0, SP_OK);
    assert_int_equal(w.limits + w.mounts, 0);
    end(SP_OK);
    begin(false, 0, 1, SP_OK);
    assert_int_equal(w.limits, 0);
    assert_int_equal(w.mounts, 1);
    step(SP_OK);
    end(SP_OK);
    begin(true, 0, 0, SP_OK);
    assert_int_equal(w.limits, 1);
    step(SP_OK);
    end(SP_OK);
}

static void test_failures(void **state)
{
    (void) state;
    begin(false, 1, 1, SP_UNSUPPORTED);
    assert_int_equal(w.limits + w.mounts, 0);
    end(SP_UNSUPPORTED);
    assert_string_equal(w.request.op.err.msg, "refused");
    begin(false, 1, 1, SP_OK);
    step(ERR_BOX_DEAD);
    assert_int_equal(w.mounts, 0);
    end(ERR_BOX_DEAD);
    assert_string_equal(w.request.op.err.msg, "the box does not run");
}

static void test_cancel(void **state)
{
    (void) state;
    begin(false, 1, 1, SP_OK); /* in a step that goes on to its end: the next is not begun */
    op_cancel(&w.request.op);
    assert_int_equal(w.cancels, 0);
    step(SP_OK);
    assert_int_equal(w.mounts, 0);
    end(SP_CANCELLED);
    begin(false, 0, 1, SP_OK); /* in one that can be cancelled */
    op_cancel(&w.request.op);
    assert_int_equal(w.cancels, 1);
    rt_run(&w.rt);
    end(SP_CANCELLED);
    begin(false, 1, 0, SP_OK); /* in the last, which succeeds all the same */
    op_cancel(&w.request.op);
    step(SP_OK);
    end(SP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_only_what_is_asked_for),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_cancel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
