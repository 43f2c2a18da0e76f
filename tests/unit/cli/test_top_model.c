/* What `sandpool top` makes of answers, and what keys do: no terminal, no daemon. */
#include <math.h>
#include <stdio.h>

#include "tests/lib/unit.h"
#include "top_fixture.h"

static struct top top; /* it is large */

static int start(void **state)
{
    (void) state;
    top_init(&top);
    return 0;
}

static int stop(void **state)
{
    (void) state;
    top_fini(&top);
    return 0;
}

static void test_pool(void **state)
{
    (void) state;

    assert_true(take_pool(&top, POOL));
    assert_string_equal(top.mode, "running");
    assert_int_equal(top.profile_count, 2);
    assert_int_equal(top.profiles[0].blank, 3);
    assert_string_equal(top.profiles[1].reason, "no image");
    assert_true(top.profiles[1].is_open);
    assert_int_equal(top.profiles[1].failures, 6);
    assert_true(top.oldest_wait_ms > 4500 && top.oldest_wait_ms < 4501);
    assert_int_equal(top.disk_free.n, 1073741824);

    /* what is malformed changes nothing; what is missing is not known */
    assert_false(take_pool(&top, "{\"mode\":\"running\"}"));
    assert_false(take_pool(&top, "{\"mode\":3,\"profiles\":[]}"));
    assert_false(take_pool(&top, "[]"));
    assert_int_equal(top.profile_count, 2);
    top_set_away(&top, "no daemon");
    assert_true(take_pool(&top, "{\"mode\":\"paused\",\"profiles\":[{}]}"));
    assert_string_equal(top.away, "");
    assert_false(top.disk_free.is_known);
    assert_string_equal(top.profiles[0].mode, "");
}

static void test_too_many_profiles(void **state)
{
    (void) state;
    struct buf text;

    buf_init(&text, 65536);
    buf_puts(&text, "{\"mode\":\"running\",\"profiles\":[{}");
    for (unsigned i = 0; i < TOP_PROFILES_MAX; i++)
        buf_puts(&text, ",{}");
    buf_puts(&text, "]}");
    assert_false(take_pool(&top, buf_str(&text)));
    buf_fini(&text);
}

static void test_boxes(void **state)
{
    (void) state;

    assert_true(take_pool(&top, POOL));
    assert_true(take_boxes(&top, BOXES));
    assert_int_equal(top.box_count, 3);
    assert_true(box_named(&top, "two")->disk.n == 5368709120);
    assert_false(box_named(&top, "one")->disk.is_known);
    assert_true(box_named(&top, "two")->idle_s >= 60);
    assert_false(box_named(&top, "box:0000000000000003")->has_owner);
    assert_false(take_boxes(&top, "{\"sandboxes\":[{}]}"));
    assert_false(take_boxes(&top, "{}"));
    assert_int_equal(top.box_count, 3);
    assert_true(take_boxes(&top, "{\"sandboxes\":[]}"));
    assert_int_equal(top.box_count, 0);
}

/* More than are held: the rest is left out, and that is known. */
static void test_many_boxes(void **state)
{
    (void) state;
    struct buf text;
    struct json_doc *doc;
    char cursor[128];

    buf_init(&text, 1 << 20);
    buf_puts(&text, "{\"sandboxes\":[");
    for (unsigned i = 0; i < 1000; i++)
        buf_printf(&text, "%s{\"box_id\":\"b%u\",\"state\":\"blank\"}", i > 0 ? "," : "", i);
    buf_puts(&text, "],\"next_cursor\":\"7\"}");
    doc = parse(buf_str(&text));
    top_begin_boxes(&top);
    for (unsigned i = 0; i < TOP_BOXES_MAX / 1000; i++) {
        assert_false(top.has_more);
        assert_true(top_take_boxes(&top, json_root(doc), cursor));
    }
    assert_string_equal(cursor, "");
    assert_true(top.has_more);
    top_end_boxes(&top);
    assert_int_equal(top.box_count, TOP_BOXES_MAX);
    (void) json_doc_free(doc);
    buf_fini(&text);
}

static void test_use(void **state)
{
    (void) state;
    struct top_use *use;

    assert_true(take_boxes(&top, BOXES));
    take_use(&top, "one",
             "{\"stats\":{\"cpu_ms\":100,\"memory_bytes\":4096,\"disk_read_bytes\":10,"
             "\"disk_write_bytes\":null}}",
             1000);
    use = &box_named(&top, "one")->use;
    assert_int_equal(use->memory.n, 4096);
    assert_true(use->cpu_percent < 0);
    assert_true(take_boxes(&top, BOXES)); /* it is still known of the same box */
    take_use(&top, "one", "{\"stats\":{\"cpu_ms\":1100}}", 3000);
    use = &box_named(&top, "one")->use;
    assert_true(fabs(use->cpu_percent - 50) < 0.01);
    assert_false(use->memory.is_known);
    assert_true(use->io_per_s < 0);
    take_use(&top, "one", "{\"stats\":{\"cpu_ms\":5}}", 4000); /* it was made anew */
    assert_true(box_named(&top, "one")->use.cpu_percent < 0);
    top_take_use(box_named(&top, "one"), NULL, 5000);
    assert_false(box_named(&top, "one")->use.cpu_ms.is_known);
}

static void test_quantiles(void **state)
{
    (void) state;
    struct top_acquires a;

    assert_true(top_take_metrics(&top,
                                 "# HELP x\nother 1\n" SOURCE_LINES("warm", 50, 100, 100)
                                     SOURCE_LINES("cold", 0, 0, 4),
                                 1000));
    assert_int_equal(top.acquires.count, 2);
    top_acquires_of(&top, 0, false, &a);
    assert_int_equal(a.count, 100);
    assert_true(fabs(a.p50_s - 0.001) < 1e-9);
    assert_true(fabs(a.p99_s - 0.00982) < 1e-9);
    top_acquires_of(&top, 1, false, &a);
    assert_true(isinf(a.p50_s)); /* above all bounds */
    assert_true(fabs(top_hit_rate(&top, false) - 100.0 / 104) < 1e-9);
    assert_true(top_hit_rate(&top, true) < 0);

    /* ten seconds later: these were quick */
    assert_true(top_take_metrics(
        &top, SOURCE_LINES("warm", 60, 110, 110) SOURCE_LINES("cold", 0, 0, 4), 11000));
    top_acquires_of(&top, 0, true, &a);
    assert_int_equal(a.count, 10);
    assert_true(a.p99_s < 0.001);
    assert_true(fabs(top_acquires_per_s(&top) - 1) < 1e-9);
    assert_true(top_hit_rate(&top, true) == 1);

    /* the minute moves on */
    for (unsigned i = 0; i < 20; i++)
        assert_true(
            top_take_metrics(&top, SOURCE_LINES("warm", 60, 110, 110) SOURCE_LINES("cold", 0, 0, 4),
                             20000 + i * TOP_SAMPLE_MS));
    top_acquires_of(&top, 0, true, &a);
    assert_int_equal(a.count, 0);

    /* another daemon: it counts from 0 */
    assert_true(top_take_metrics(&top, SOURCE_LINES("warm", 1, 1, 1), 200000));
    assert_true(top_acquires_per_s(&top) < 0);
}

static void test_metrics_that_are_none(void **state)
{
    (void) state;
#define B "sandpool_acquire_duration_seconds_bucket{source="
    static const char *const bad[] = {
        B "\"warm\",le=\"0.1\"} 5\n",                                 /* cut off */
        B "\"warm\",le=\"0.1\"} 5\n" B "\"warm\",le=\"+Inf\"} 4\n",   /* less than below */
        B "\"warm\",le=\"0.1\"} 5\n" B "\"warm\",le=\"0.1\"} 5\n",    /* out of order */
        B "\"warm\",le=\"+Inf\"} 5\n" B "\"warm\",le=\"+Inf\"} 5\n",  /* twice */
        B "\"warm\",le=\"nan\"} 5\n",                                 /* no bound */
        B "\"warm\",le=\"0x1\"} 5\n",                                 /* no bound */
        B "\"warm\",le=\"-1\"} 5\n",                                  /* no bound */
        B "\"warm\",le=\"+Inf\"} -5\n",                               /* no count */
        B "\"warm\",le=\"+Inf\"} 5 6\n",                              /* no count */
        B "\"warm\",le=\"+Inf\"} 99999999999999999999\n",             /* no count */
        B "\"wa\\\"rm\",le=\"+Inf\"} 5\n",                            /* no name */
        B "\"\",le=\"+Inf\"} 5\n",                                    /* no name */
        B "\"a-name-that-is-much-longer-than-any\",le=\"+Inf\"} 5\n", /* no name */
        B "\"warm\"} 5\n",                                            /* no bound */
        B "\"warm",                                                   /* no end */
    };
    struct buf text;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (top_take_metrics(&top, bad[i], 1))
            fail_msg("accepted: %s", bad[i]);
    }
    assert_int_equal(top.acquires.count, 0);
    buf_init(&text, 1 << 16);
    for (unsigned i = 0; i < TOP_SOURCES_MAX + 1; i++)
        buf_printf(&text, B "\"s%u\",le=\"+Inf\"} 5\n", i);
    assert_false(top_take_metrics(&top, buf_str(&text), 1));
    buf_reset(&text);
    for (unsigned i = 0; i < TOP_BUCKETS_MAX + 2; i++)
        buf_printf(&text, B "\"s\",le=\"%u\"} 5\n", i);
    assert_false(top_take_metrics(&top, buf_str(&text), 1));
    buf_fini(&text);
    assert_true(top_take_metrics(&top, "", 1)); /* a daemon that counts nothing */
}

/* --- keys --- */

static struct top_view view;

static int start_view(void **state)
{
    (void) start(state);
    top_view_init(&view);
    assert_true(take_pool(&top, POOL));
    assert_true(take_boxes(&top, BOXES));
    top_view_update(&view, &top);
    return 0;
}

static int stop_view(void **state)
{
    top_view_fini(&view);
    return stop(state);
}

static enum top_action press(const char *keys)
{
    enum top_action action = TOP_NOTHING;

    for (; *keys != '\0'; keys++)
        action = top_view_key(&view, &top, *keys == '\n' ? TOP_KEY_ENTER : (unsigned char) *keys);
    return action;
}

static const char *selected(void)
{
    return top.boxes[view.order[view.selected]].name;
}

static void test_selection_stays(void **state)
{
    (void) state;

    assert_string_equal(selected(), "two"); /* the oldest first */
    (void) press("jj");
    assert_string_equal(selected(), "one");
    (void) press("j");
    assert_string_equal(selected(), "one"); /* the last */
    (void) press("O");
    assert_string_equal(selected(), "one");
    assert_int_equal(view.selected, 0);
    for (unsigned i = 0; i < TOP_SORT_COUNT; i++) {
        (void) press("o");
        assert_string_equal(selected(), "one");
    }
    assert_true(
        take_boxes(&top, "{\"sandboxes\":[" BOX("0000000000000002", "\"two\"", "parked", "") "]}"));
    top_view_update(&view, &top);
    assert_string_equal(selected(), "two");
    assert_true(take_boxes(&top, "{\"sandboxes\":[]}"));
    top_view_update(&view, &top);
    assert_int_equal(view.count, 0);
    assert_int_equal(press("jkGgd\ns"), TOP_NOTHING);
}

static void test_filter(void **state)
{
    (void) state;

    (void) press("/bob\n");
    assert_int_equal(view.count, 1);
    assert_string_equal(selected(), "two");
    (void) press("/zz");
    assert_int_equal(view.count, 0);
    (void) top_view_key(&view, &top, TOP_KEY_BACKSPACE);
    (void) top_view_key(&view, &top, TOP_KEY_BACKSPACE);
    assert_int_equal(view.count, 3);
    (void) top_view_key(&view, &top, TOP_KEY_ESCAPE); /* as it was */
    assert_int_equal(view.count, 1);
    (void) top_view_key(&view, &top, TOP_KEY_ESCAPE);
    assert_int_equal(view.count, 3);
    (void) press("/");
    for (unsigned i = 0; i < 300; i++)
        (void) press("a");
    assert_int_equal(strlen(view.filter), sizeof(view.filter) - 1);
}

/* Only y does it, and to the box that was asked about, whatever has been listed meanwhile. */
static void test_confirmation(void **state)
{
    (void) state;

    assert_int_equal(press("dn"), TOP_NOTHING);
    assert_int_equal(view.mode, TOP_LIST);
    assert_int_equal(press("d\n"), TOP_NOTHING);
    assert_int_equal(press("dq"), TOP_NOTHING);
    assert_int_equal(press("d"), TOP_NOTHING);
    assert_true(
        take_boxes(&top, "{\"sandboxes\":[" BOX("0000000000000001", "\"one\"", "leased", "") "]}"));
    top_view_update(&view, &top);
    assert_int_equal(press("y"), TOP_DESTROY);
    assert_string_equal(view.target, "two");
    assert_int_equal(press("py"), TOP_PAUSE);
    assert_string_equal(view.target, "small");
    (void) top_view_key(&view, &top, TOP_KEY_TAB);
    assert_int_equal(press("jpy"), TOP_RESUME);
    assert_string_equal(view.target, "big");
    assert_int_equal(press("d"), TOP_NOTHING);
    assert_non_null(strstr(view.message, "Select a box"));
}

/* A daemon without modes of profiles would pause all of them. */
static void test_no_pause_of_all(void **state)
{
    (void) state;

    for (unsigned i = 0; i < top.profile_count; i++)
        top.profiles[i].mode[0] = '\0';
    assert_int_equal(press("p"), TOP_NOTHING);
    assert_int_equal(view.mode, TOP_LIST);
    assert_non_null(strstr(view.message, "cannot pause one profile"));
}

static void test_actions(void **state)
{
    (void) state;

    assert_int_equal(press("\n"), TOP_INSPECT);
    assert_string_equal(view.target, "two");
    assert_int_equal(press("s"), TOP_SHELL);
    assert_int_equal(press("q"), TOP_NOTHING);
    assert_int_equal(press("?q"), TOP_NOTHING);
    assert_int_equal(press("js"), TOP_NOTHING); /* nobody's */
    assert_non_null(strstr(view.message, "Nobody owns"));
    assert_int_equal(press("q"), TOP_QUIT);
}

/* Those on the screen, in turn, each once. */
static void test_who_is_asked(void **state)
{
    (void) state;
    struct top_box *b = top_view_next(&view, &top, 2, 100);

    assert_string_equal(b->name, "two");
    b->use.asked_ms = 100;
    b = top_view_next(&view, &top, 2, 100);
    assert_string_equal(b->name, "box:0000000000000003");
    b->use.asked_ms = 101;
    assert_null(top_view_next(&view, &top, 2, 100));
    assert_string_equal(top_view_next(&view, &top, 2, 200)->name, "two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pool, start, stop),
        cmocka_unit_test_setup_teardown(test_too_many_profiles, start, stop),
        cmocka_unit_test_setup_teardown(test_boxes, start, stop),
        cmocka_unit_test_setup_teardown(test_many_boxes, start, stop),
        cmocka_unit_test_setup_teardown(test_use, start, stop),
        cmocka_unit_test_setup_teardown(test_quantiles, start, stop),
        cmocka_unit_test_setup_teardown(test_metrics_that_are_none, start, stop),
        cmocka_unit_test_setup_teardown(test_selection_stays, start_view, stop_view),
        cmocka_unit_test_setup_teardown(test_filter, start_view, stop_view),
        cmocka_unit_test_setup_teardown(test_confirmation, start_view, stop_view),
        cmocka_unit_test_setup_teardown(test_no_pause_of_all, start_view, stop_view),
        cmocka_unit_test_setup_teardown(test_actions, start_view, stop_view),
        cmocka_unit_test_setup_teardown(test_who_is_asked, start_view, stop_view),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
