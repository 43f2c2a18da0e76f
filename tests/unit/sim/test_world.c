/* The simulated machine on a clock that the test moves. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "sim/wire.h"
#include "sim/world.h"
#include "tests/lib/unit.h"

struct fixture {
    struct rt rt;
    struct world world;
    uint64_t died;
    char reason[64];
};

static void on_died(void *ctx, uint64_t box_id, const char *reason)
{
    struct fixture *f = ctx;

    f->died = box_id;
    (void) snprintf(f->reason, sizeof(f->reason), "%s", reason);
}

static int set_up(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));

    rt_init_fake(&f->rt, NS_PER_S, 0);
    world_init(&f->world, &f->rt, 20000, on_died, f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    world_fini(&f->world);
    rt_fini(&f->rt);
    test_free(f);
    return 0;
}

static struct world_spec spec_of(uint64_t box_id)
{
    return (struct world_spec){
        .box_id = box_id,
        .spec_hash = 0xfedcba9876543210ULL,
        .text = {"instance-1", "default", "", "", "", "0123456789abcdef0123456789abcdef"},
    };
}

static uint64_t make(struct fixture *f, uint64_t box_id, const struct world_manners *m)
{
    struct world_spec spec = spec_of(box_id);
    uint64_t at_ns;
    bool is_new;

    assert_int_equal(world_create(&f->world, &spec, m, &at_ns, &is_new, NULL), SP_OK);
    assert_true(is_new);
    return at_ns;
}

static void test_create_takes_its_time(void **state)
{
    struct fixture *f = *state;
    const struct world_manners m = {.create_ms = 100, .create_jitter_ms = 50, .ready_ms = 30};
    uint64_t least_ns = RT_NEVER;
    uint64_t most_ns = 0;

    for (uint64_t id = 1; id <= 200; id++) {
        uint64_t took_ns = make(f, id, &m) - rt_now(&f->rt);

        assert_in_range(took_ns, 100 * NS_PER_MS, 150 * NS_PER_MS);
        assert_int_equal(world_find(&f->world, id)->ready_ns,
                         rt_now(&f->rt) + took_ns + 30 * NS_PER_MS);
        least_ns = MIN_OF(least_ns, took_ns);
        most_ns = MAX_OF(most_ns, took_ns);
    }
    assert_true(least_ns < 110 * NS_PER_MS && most_ns > 140 * NS_PER_MS);
    assert_int_equal(world_count(&f->world), 200);
}

static void test_create_twice_is_one_box(void **state)
{
    struct fixture *f = *state;
    const struct world_manners m = {.create_ms = 100};
    struct world_spec spec = spec_of(7);
    uint64_t at_ns;
    bool is_new;

    (void) make(f, 7, &m);
    spec.text[WORLD_TOKEN] = "another";
    assert_int_equal(world_create(&f->world, &spec, &m, &at_ns, &is_new, NULL), SP_OK);
    assert_false(is_new);
    assert_int_equal(at_ns, rt_now(&f->rt));
    assert_int_equal(world_count(&f->world), 1);
    assert_string_not_equal(world_box_text(world_find(&f->world, 7), WORLD_TOKEN), "another");
}

static unsigned count_failures(struct fixture *f, uint64_t seed, uint64_t from, char *ret_pattern)
{
    const struct world_manners m = {.fail_percent = 30, .seed = seed};
    unsigned failed = 0;

    f->world.draws = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        struct world_spec spec = spec_of(from + i);
        uint64_t at_ns;
        bool is_new;
        int rc = world_create(&f->world, &spec, &m, &at_ns, &is_new, NULL);

        assert_true(rc == SP_OK || rc == SP_BACKEND_FAILED);
        assert_int_equal(world_find(&f->world, from + i) != NULL, rc == SP_OK);
        ret_pattern[i] = rc == SP_OK ? '.' : 'x';
        failed += rc != SP_OK;
        if (rc == SP_OK)
            assert_true(world_destroy(&f->world, from + i));
    }
    return failed;
}

static void test_failures_follow_the_seed(void **state)
{
    struct fixture *f = *state;
    char first[1000];
    char again[1000];
    char other[1000];

    assert_in_range(count_failures(f, 1, 1, first), 220, 380);
    (void) count_failures(f, 1, 1, again);
    (void) count_failures(f, 2, 1, other);
    assert_memory_equal(first, again, sizeof(first));
    assert_memory_not_equal(first, other, sizeof(first));
    assert_int_equal(world_count(&f->world), 0);
}

static void test_hanging_create_leaves_a_box(void **state)
{
    struct fixture *f = *state;
    const struct world_manners m = {.hang_percent = 100};

    assert_true(make(f, 3, &m) == RT_NEVER);
    assert_non_null(world_find(&f->world, 3));
    assert_int_equal(f->world.stats.hung, 1);
}

static void test_overtaken_create_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    const struct world_manners m = {0};
    struct world_spec spec = spec_of(9);
    uint64_t at_ns;
    bool is_new;

    assert_false(world_destroy(&f->world, 9));
    assert_int_equal(world_create(&f->world, &spec, &m, &at_ns, &is_new, NULL), SP_BACKEND_FAILED);
    assert_null(world_find(&f->world, 9));
    rt_advance(&f->rt, 60 * NS_PER_S);
    assert_int_equal(world_create(&f->world, &spec, &m, &at_ns, &is_new, NULL), SP_OK);
    /* What was there and was destroyed may be made again. */
    assert_true(world_destroy(&f->world, 9));
    assert_int_equal(world_create(&f->world, &spec, &m, &at_ns, &is_new, NULL), SP_OK);
}

static void test_killed_box_is_reported(void **state)
{
    struct fixture *f = *state;
    const struct world_manners m = {0};

    (void) make(f, 5, &m);
    assert_true(world_kill(&f->world, 5, "out of memory"));
    assert_int_equal(f->died, 5);
    assert_string_equal(f->reason, "out of memory");
    assert_null(world_find(&f->world, 5));
    assert_false(world_kill(&f->world, 5, "again"));
    (void) make(f, 6, &m);
    assert_true(world_destroy(&f->world, 6));
    assert_int_equal(f->died, 5); /* a destroy is no death */
}

static void test_bind_moves_the_sandbox_id(void **state)
{
    struct fixture *f = *state;
    const struct world_manners m = {0};
    struct world_spec labels = spec_of(1);

    (void) make(f, 1, &m);
    (void) make(f, 2, &m);
    labels.generation = 3;
    labels.text[WORLD_SANDBOX_ID] = "aaaa";
    labels.text[WORLD_USER] = "ann";
    labels.text[WORLD_INSTANCE] = "not taken over";
    labels.text[WORLD_TOKEN] = "neither";
    assert_int_equal(world_bind(&f->world, &labels, NULL), SP_OK);
    assert_string_equal(world_box_text(world_find(&f->world, 1), WORLD_INSTANCE), "instance-1");
    assert_string_equal(world_box_text(world_find(&f->world, 1), WORLD_USER), "ann");
    assert_int_equal(world_find_sandbox(&f->world, "instance-1", "aaaa")->box_id, 1);
    assert_null(world_find_sandbox(&f->world, "instance-2", "aaaa"));

    /* The newer one of two. */
    labels.box_id = 2;
    labels.generation = 4;
    assert_int_equal(world_bind(&f->world, &labels, NULL), SP_OK);
    assert_int_equal(world_find_sandbox(&f->world, "instance-1", "aaaa")->box_id, 2);
    labels.text[WORLD_SANDBOX_ID] = "bbbb";
    assert_int_equal(world_bind(&f->world, &labels, NULL), SP_OK);
    assert_int_equal(world_find_sandbox(&f->world, "instance-1", "aaaa")->box_id, 1);
    assert_true(world_destroy(&f->world, 1));
    assert_null(world_find_sandbox(&f->world, "instance-1", "aaaa"));
    labels.box_id = 99;
    assert_int_equal(world_bind(&f->world, &labels, NULL), SP_NOT_FOUND);
}

static void test_listing_misses_none_that_stays(void **state)
{
    struct fixture *f = *state;
    const struct world_manners m = {0};
    static bool seen[1001];
    uint64_t next_id = 1001;
    size_t cursor = 0;

    memset(seen, 0, sizeof(seen));
    for (uint64_t id = 1; id <= 1000; id++)
        (void) make(f, id, &m);
    for (;;) {
        const struct world_box *box = world_next(&f->world, &cursor);

        if (box == NULL)
            break;
        if (box->box_id <= 1000) {
            assert_false(seen[box->box_id]);
            seen[box->box_id] = true;
        }
        /* Even ones come and go while it runs; odd ones stay. */
        (void) world_destroy(&f->world, (box->box_id * 7919 % 500) * 2 + 2);
        if (next_id < 3000)
            (void) make(f, next_id++, &m);
    }
    for (uint64_t id = 1; id <= 1000; id += 2)
        assert_true(seen[id]);
}

static void test_full_machine_refuses(void **state)
{
    struct fixture *f = *state;
    const struct world_manners m = {0};
    struct world_spec spec = spec_of(4);
    uint64_t at_ns;
    bool is_new;

    f->world.max = 3;
    for (uint64_t id = 1; id <= 3; id++)
        (void) make(f, id, &m);
    assert_int_equal(world_create(&f->world, &spec, &m, &at_ns, &is_new, NULL), SP_TOO_BIG);
    assert_true(world_destroy(&f->world, 2));
    assert_int_equal(world_create(&f->world, &spec, &m, &at_ns, &is_new, NULL), SP_OK);
}

static void test_memory_of_a_box(void **state)
{
    struct fixture *f = *state;
    const struct world_manners m = {0};
    size_t before = mallinfo2().uordblks;
    size_t each;

    for (uint64_t id = 1; id <= 10000; id++)
        (void) make(f, id, &m);
    each = (mallinfo2().uordblks - before) / 10000;
    print_message("a box of the world takes %zu bytes\n", each);
    assert_true(each < 600);
}

static void test_wire_keeps_everything(void **state)
{
    struct world_spec spec = spec_of(0x8000000000000001ULL);
    const struct world_manners m = {1, 2, 3, 4, 5, UINT64_MAX};
    struct world_manners m2;
    struct json_doc *doc;
    struct json_out o;
    struct wire_box box;
    struct buf text;

    (void) state;
    spec.generation = 12;
    spec.text[WORLD_USER] = "quote \" and \n newline \xc3\xa9";
    buf_init(&text, 4096);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    wire_put_box(&o, &spec, "http://x");
    wire_put_manners(&o, &m);
    json_end(&o);
    json_out_finish(&o, &text);
    doc = json_parse(text.data, text.len, 4096, NULL);
    assert_non_null(doc);
    assert_int_equal(wire_get_box(json_root(doc), &box, NULL), SP_OK);
    assert_int_equal(wire_get_manners(json_root(doc), &m2, NULL), SP_OK);
    assert_memory_equal(&m, &m2, sizeof(m));
    assert_true(box.spec.box_id == spec.box_id && box.spec.spec_hash == spec.spec_hash);
    assert_int_equal(box.spec.generation, 12);
    for (int i = 0; i < WORLD_TEXT_COUNT; i++)
        assert_string_equal(box.spec.text[i], spec.text[i]);
    assert_string_equal(box.url, "http://x");
    (void) json_doc_free(doc);
    buf_fini(&text);
}

static void test_wire_refuses_nonsense(void **state)
{
    static const char *const bad[] = {"{\"box_id\":\"xyz\"}", "{\"box_id\":5}",
                                      "{\"generation\":-1}", "{\"user\":[]}", "[]"};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct json_doc *doc = json_parse(bad[i], strlen(bad[i]), 4096, NULL);
        struct wire_box box;

        assert_non_null(doc);
        assert_int_equal(wire_get_box(json_root(doc), &box, NULL), SP_INVALID_FIELD);
        (void) json_doc_free(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_create_takes_its_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_create_twice_is_one_box, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failures_follow_the_seed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hanging_create_leaves_a_box, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_overtaken_create_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed_box_is_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bind_moves_the_sandbox_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_listing_misses_none_that_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_machine_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_of_a_box, set_up, tear_down),
        cmocka_unit_test(test_wire_keeps_everything),
        cmocka_unit_test(test_wire_refuses_nonsense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
