/* test_flatten.c - which snapshot is made flat, and what that costs: a new or a deleted snapshot is weighed by itself,
 * however many others there are. sandpool-helper and the thread that puts the file in its place are replaced when this is
 * linked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"

enum {
    MANY = 4000,
    CHAIN = OCI_LAYERS_MAX,
    FIRST = 1000000, /* ids of chains are above it, of the others below */
};

/* The names that the linker gives to the replaced functions. */
void __wrap_oci_helper_start(struct oci *o, struct oci_helper *h, uint64_t deadline_ns,
                             void (*on_done)(struct op *));
void __wrap_work_start(struct loop *l, struct work *w, struct list *owner, uint64_t deadline_ns,
                       void (*on_done)(struct op *));
unsigned __wrap_oci_snapshot_depth(struct oci *o, const struct oci_snapshot *e);
unsigned __real_oci_snapshot_depth(struct oci *o, const struct oci_snapshot *e);

static struct {
    struct oci_helper *helper; /* that runs */
    struct work *work;
    unsigned looks;   /* at the layers of a snapshot */
    unsigned reports; /* to the engine */
    unsigned deepest; /* of them */
    unsigned turn;    /* most looks in one turn of the loop */
} seen;

void __wrap_oci_helper_start(struct oci *o, struct oci_helper *h, uint64_t deadline_ns,
                             void (*on_done)(struct op *))
{
    assert_null(seen.helper);
    seen.helper = h;
    op_begin(&h->op, &o->loop->rt, NULL, deadline_ns, NULL, on_done);
}

void __wrap_work_start(struct loop *l, struct work *w, struct list *owner, uint64_t deadline_ns,
                       void (*on_done)(struct op *))
{
    assert_null(seen.work);
    seen.work = w;
    op_begin(&w->op, &l->rt, owner, deadline_ns, NULL, on_done);
}

unsigned __wrap_oci_snapshot_depth(struct oci *o, const struct oci_snapshot *e)
{
    seen.looks++;
    return __real_oci_snapshot_depth(o, e);
}

static void on_snapshot(void *ctx UNUSED, uint64_t id UNUSED, uint64_t size UNUSED, uint64_t layers)
{
    seen.reports++;
    seen.deepest = MAX_OF(seen.deepest, (unsigned) layers);
}

static const struct backend_events events = {.on_snapshot = on_snapshot};

static bool never(struct closing *c UNUSED)
{
    return false;
}

static int setup(void **state)
{
    struct oci *o = xcalloc(1, sizeof(*o));
    char dir[TMPDIR_LEN];
    struct err err;

    memset(&seen, 0, sizeof(seen));
    o->loop = xcalloc(1, sizeof(*o->loop));
    rt_init_fake(&o->loop->rt, NS_PER_S, NS_PER_S);
    closing_init(&o->closing, &o->loop->rt, never);
    o->events = &events;
    tmpdir_make(dir);
    str_copy_cut(o->dir, sizeof(o->dir), dir);
    assert_int_equal(oci_snapshots_open(o, &err), SP_OK);
    *state = o;
    return 0;
}

static int teardown(void **state)
{
    struct oci *o = *state;

    oci_snapshots_close(o);
    rt_timer_cancel(&o->loop->rt, &o->closing.tick);
    rt_undefer(&o->loop->rt, &o->closing.task);
    assert_int_equal(rmdir(o->snapshots.dir), 0);
    tmpdir_remove(o->dir);
    rt_fini(&o->loop->rt);
    free(o->loop);
    free(o);
    return 0;
}

static void add(struct oci *o, uint64_t id, uint64_t parent)
{
    struct snapshot *s = xcalloc(1, sizeof(*s));

    s->id = id;
    s->parent = parent;
    oci_snapshot_add(o, s, 65536);
    free(s);
}

static void add_chain(struct oci *o, uint64_t first, unsigned len)
{
    for (unsigned i = 0; i < len; i++)
        add(o, first + i, i > 0 ? first + i - 1 : 0);
}

static uint64_t flattened(const struct oci_helper *h)
{
    const char *at = strstr(buf_str((struct buf *) (uintptr_t) &h->plan), "/snapshots/");
    char hex[17];
    uint64_t id = 0;

    assert_non_null(at);
    str_copy_cut(hex, sizeof(hex), at + strlen("/snapshots/"));
    assert_true(str_parse_hex64(hex, &id));
    return id;
}

static void turn(struct oci *o)
{
    unsigned before = seen.looks;

    rt_run(&o->loop->rt);
    seen.turn = MAX_OF(seen.turn, seen.looks - before);
}

static void run(struct oci *o)
{
    turn(o);
    for (uint64_t next_ns = rt_next_deadline(&o->loop->rt); next_ns != RT_NEVER;
         next_ns = rt_next_deadline(&o->loop->rt)) {
        o->loop->rt.now_ns = next_ns;
        turn(o);
    }
}

/* The helper has merged the layers, and the file is in its place. */
static void finish_one(struct oci *o)
{
    static const char answer[] = "{\"size\": 4096}";
    struct oci_helper *h = seen.helper;
    struct work *w;
    struct err err;

    assert_non_null(h);
    h->answer = json_parse(answer, strlen(answer), sizeof(answer), &err);
    seen.helper = NULL;
    op_finish(&h->op, SP_OK, NULL);
    rt_run(&o->loop->rt);
    w = seen.work;
    assert_non_null(w);
    seen.work = NULL;
    op_finish(&w->op, SP_OK, NULL);
    run(o);
}

static void end_all(struct oci *o)
{
    o->closing.is_closing = true;
    if (seen.helper != NULL) {
        struct err err;

        (void) err_set(&err, SP_CANCELLED, "the test is over");
        op_finish(&seen.helper->op, SP_CANCELLED, &err);
        seen.helper = NULL;
        rt_run(&o->loop->rt);
    }
}

static void test_the_middle_of_a_chain(void **state)
{
    struct oci *o = *state;

    add_chain(o, FIRST, OCI_LAYERS_FLAT - 1);
    assert_null(seen.helper);
    add(o, FIRST + OCI_LAYERS_FLAT - 1, FIRST + OCI_LAYERS_FLAT - 2);
    assert_non_null(seen.helper);
    assert_int_equal(flattened(seen.helper), FIRST + OCI_LAYERS_FLAT - 1);
    for (unsigned i = OCI_LAYERS_FLAT; i < CHAIN; i++)
        add(o, FIRST + i, FIRST + i - 1);
    finish_one(o);
    assert_int_equal(oci_snapshot_depth(o, oci_snapshot_find(o, FIRST + CHAIN - 1)),
                     CHAIN - OCI_LAYERS_FLAT + 1);
    assert_int_equal(seen.reports, CHAIN - OCI_LAYERS_FLAT + 1); /* itself and those above */
    assert_int_equal(seen.deepest, CHAIN - OCI_LAYERS_FLAT + 1);
    /* The next one has as many layers as the first had. */
    assert_non_null(seen.helper);
    assert_int_equal(flattened(seen.helper), FIRST + 2 * OCI_LAYERS_FLAT - 2);
    finish_one(o);
    assert_null(seen.helper);
    end_all(o);
}

static void on_gone(struct op *op)
{
    assert_int_equal(op->result, SP_OK);
}

static void test_others_cost_nothing(void **state)
{
    struct oci *o = *state;
    struct backend_drop *drop = xcalloc(1, sizeof(*drop));

    for (uint64_t id = 1; id <= MANY; id++)
        add(o, id, 0);
    seen.looks = 0;
    add(o, MANY + 1, 0);
    assert_true(seen.looks <= 2);
    seen.looks = 0;
    add_chain(o, FIRST, OCI_LAYERS_FLAT);
    assert_true(seen.looks <= 2 * OCI_LAYERS_FLAT);
    seen.looks = 0;
    finish_one(o);
    assert_true(seen.looks <= 8);
    assert_int_equal(seen.reports, 1);
    drop->id = 7;
    seen.looks = 0;
    oci_drop(&o->base, drop, RT_NEVER, on_gone);
    assert_non_null(seen.work);
    op_finish(&TAKE_PTR(seen.work)->op, SP_OK, NULL);
    run(o);
    assert_null(oci_snapshot_find_any(o, 7));
    assert_true(seen.looks <= 4);
    end_all(o);
    free(drop);
}

/* What lies above it in thousands is looked at in parts, and one of them is the next. */
static void test_many_above(void **state)
{
    struct oci *o = *state;
    uint64_t top = FIRST + CHAIN - 2; /* above the one in the middle, as many layers as it had */

    add_chain(o, FIRST, CHAIN - 1);
    for (uint64_t id = 1; id <= MANY; id++)
        add(o, id, FIRST + OCI_LAYERS_FLAT - 1);
    seen.turn = 0;
    finish_one(o);
    assert_int_equal(seen.reports, MANY + CHAIN - OCI_LAYERS_FLAT);
    assert_true(seen.turn <= 1024);
    assert_non_null(seen.helper);
    assert_int_equal(flattened(seen.helper), top);
    end_all(o);
}

/* One that could not be made flat is not tried again, nor is any above it. */
static void test_a_failure_is_final(void **state)
{
    struct oci *o = *state;
    struct err err;

    add_chain(o, FIRST, CHAIN);
    (void) err_set(&err, SP_IO, "the disk is full");
    op_finish(&TAKE_PTR(seen.helper)->op, SP_IO, &err);
    run(o);
    assert_null(seen.helper);
    assert_string_equal(o->snapshots.flat_trouble, "the disk is full");
    add_chain(o, 2 * FIRST, OCI_LAYERS_FLAT);
    assert_non_null(seen.helper);
    assert_int_equal(flattened(seen.helper), 2 * FIRST + OCI_LAYERS_FLAT - 1);
    end_all(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_middle_of_a_chain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_cost_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_above, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_failure_is_final, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
