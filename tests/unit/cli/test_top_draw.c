/* The picture of `sandpool top`, of any size and of any text. */
#include <stdio.h>

#include "base/str.h"
#include "tests/lib/unit.h"
#include "top_fixture.h"

static struct top top;
static struct top_view view;

static int start(void **state)
{
    (void) state;
    top_init(&top);
    top_view_init(&view);
    assert_true(take_pool(&top, POOL));
    assert_true(take_boxes(&top, BOXES));
    assert_true(top_take_metrics(&top, SOURCE_LINES("warm", 50, 100, 100), 1000));
    top_view_update(&view, &top);
    return 0;
}

static int stop(void **state)
{
    (void) state;
    top_view_fini(&view);
    top_fini(&top);
    return 0;
}

static char *print(const struct top_grid *g)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    top_grid_print(g, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static char *draw(unsigned cols, unsigned rows)
{
    struct top_grid g;
    char *text;

    top_grid_init(&g, cols, rows);
    top_draw(&top, &view, &g);
    text = print(&g);
    top_grid_fini(&g);
    return text;
}

static void check_text(const char *text, const char *wanted)
{
    if (strstr(text, wanted) == NULL)
        fail_msg("'%s' is not in\n%s", wanted, text);
}

static void check_draw(unsigned cols, unsigned rows, const char *wanted)
{
    char *text = draw(cols, rows);

    check_text(text, wanted);
    free(text);
}

/* No line is longer than the screen, none is missing, nothing in them is obeyed by a terminal. */
static void check_fits(const char *text, unsigned cols, unsigned rows)
{
    unsigned lines = 0;

    assert_true(str_is_utf8(text, strlen(text)));
    for (; *text != '\0'; text += strcspn(text, "\n") + 1, lines++) {
        char line[4096];
        size_t len = strcspn(text, "\n");

        assert_true(str_copy_n(line, sizeof(line), text, len));
        assert_true(top_grid_width(line) <= cols);
        for (size_t i = 0; i < len; i++) {
            unsigned char c = (unsigned char) line[i];

            assert_true(c >= ' ' && c != 127);
            assert_false(c == 0xc2 && (unsigned char) line[i + 1] < 0xa0);
        }
    }
    assert_int_equal(lines, rows);
}

static void test_all_at_once(void **state)
{
    (void) state;
    static const char *const wanted[] = {
        "sandpool running  boxes 7/10  waiting 3 (oldest 4.5s)  store up\n",
        "hit rate 100.0% (last minute -)  acquires -  creating 3  disk 1.0G of 4.0G free\n",
        "small                running        3/4      2      1      1     0     0      -  75.0% closed\n",
        "open, next try in 2.0s: no image\n",
        "warm               100   1.0ms   9.8ms",
        "one ",
        "ana/t1",
        "two ",
        "5.0G",
        "box:0000000000000003",
    };
    struct top_grid g;
    char *text;

    top_draw_all(&top, &view, 132, &g);
    text = print(&g);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        check_text(text, wanted[i]);
    check_fits(text, 132, g.rows);
    free(text);
    top_grid_fini(&g);
}

static void test_every_size(void **state)
{
    (void) state;
    static const enum top_mode modes[] = {TOP_LIST, TOP_DETAILS, TOP_HELP, TOP_FILTER, TOP_CONFIRM};

    buf_puts(&view.details, "state leased\nprofile small\nuser_id ana\nurl x\na\nb\nc\nd\n");
    str_copy_cut(view.target, sizeof(view.target), "two");
    view.asked = TOP_DESTROY;
    for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
        view.mode = modes[m];
        for (unsigned cols = 1; cols <= 300; cols += cols < 24 ? 1 : 23) {
            for (unsigned rows = 1; rows <= 100; rows += rows < 28 ? 1 : 9) {
                char *text = draw(cols, rows);

                check_fits(text, cols, rows);
                if (cols < TOP_COLS_MIN || rows < TOP_ROWS_MIN)
                    assert_memory_equal(text, "too small: 20 x 5 is the least",
                                        MIN_OF(strcspn(text, "\n"), 30U));
                free(text);
            }
        }
    }
}

/* What matters most is there however small it is. */
static void test_small(void **state)
{
    (void) state;

    check_draw(20, 5, "small");
    check_draw(20, 5, "two");
    view.mode = TOP_CONFIRM;
    view.asked = TOP_DESTROY;
    str_copy_cut(view.target, sizeof(view.target), "two");
    check_draw(20, 5, "Destroy two? y/n");
}

static void test_hostile_text(void **state)
{
    (void) state;
    static const char *const names[] = {
        "\x1b[2J\x1b]0;x\x07",
        "\r\n\b\t",
        "\xc2\x9b"
        "2J",
        "\xff\xfe\x80",
        "\xe2\x80\xae"
        "abc",
        "e\xcc\x81\xcc\x81\xcc\x81",
        "\xf4\x8f\xbf\xbf",
        "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2",
        "\xc3\xa4\xc3\xb6\xc3\xbc",
        "%s%n%n",
        "\xe6\xbc",
        "\x7f",
    };

    buf_puts(&view.details, "user \x1b[31m\n\xc2\x9b\n");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        for (size_t k = 0; k < top.box_count; k++) {
            str_copy_cut(top.boxes[k].name, sizeof(top.boxes[k].name), names[i]);
            str_copy_cut(top.boxes[k].user, sizeof(top.boxes[k].user), names[i]);
            str_copy_cut(top.boxes[k].state, sizeof(top.boxes[k].state), names[i]);
        }
        str_copy_cut(top.profiles[0].name, sizeof(top.profiles[0].name), names[i]);
        str_copy_cut(top.profiles[1].reason, sizeof(top.profiles[1].reason), names[i]);
        str_copy_cut(view.message, sizeof(view.message), names[i]);
        str_copy_cut(view.target, sizeof(view.target), names[i]);
        top_set_away(&top, names[i]);
        for (unsigned cols = 20; cols < 140; cols += 7) {
            char *text;

            view.mode = cols % 2 == 0 ? TOP_LIST : TOP_DETAILS;
            text = draw(cols, 30);
            check_fits(text, cols, 30);
            free(text);
        }
    }
    view.mode = TOP_LIST;
    top_set_away(&top, "\xe6\xbc\xa2\xe5\xad\x97 \xc3\xa4");
    check_draw(80, 30, "\n\xe6\xbc\xa2\xe5\xad\x97 \xc3\xa4\n"); /* what is text stays */
    top_set_away(&top, "a\x1b[2J\xff"
                       "b");
    check_draw(80, 30, "\na?[2J?b\n");
}

/* A number that is cut would be another number. */
static void test_numbers_are_not_cut(void **state)
{
    (void) state;

    top.profiles[0].leased = 12345678;
    check_draw(132, 30, " ###### ");
}

static void test_a_daemon_that_is_away(void **state)
{
    (void) state;

    top_set_away(&top, "no state of the pool: no daemon listens");
    check_draw(100, 24, "\nno state of the pool: no daemon listens\n");
    check_draw(100, 24, "small"); /* what was known is still there */
    top_fini(&top);
    top_set_away(&top, "no daemon");
    top_view_update(&view, &top);
    check_draw(100, 24, "no answer yet");
}

static void test_lists_scroll(void **state)
{
    (void) state;
    struct buf text;
    char *shown;

    buf_init(&text, 1 << 20);
    buf_puts(&text, "{\"sandboxes\":[");
    for (unsigned i = 0; i < 500; i++)
        buf_printf(&text, "%s{\"box_id\":\"b%03u\",\"state\":\"blank\",\"age_s\":%u}",
                   i > 0 ? "," : "", i, 1000 - i);
    buf_puts(&text, "]}");
    assert_true(take_boxes(&top, buf_str(&text)));
    view.key[0] = '\0';
    view.selected = 0;
    top_view_update(&view, &top);
    check_draw(80, 24, "box:b000");
    (void) top_view_key(&view, &top, 'G');
    check_draw(80, 24, "box:b499");
    (void) top_view_key(&view, &top, TOP_KEY_PAGE_UP);
    shown = draw(80, 24);
    assert_null(strstr(shown, "box:b000"));
    free(shown);
    (void) top_view_key(&view, &top, 'g');
    check_draw(80, 24, "box:b000");
    check_draw(80, 24, "500 of 500 boxes");
    buf_fini(&text);
}

static void test_json(void **state)
{
    (void) state;
    struct json_out o;
    struct json_doc *doc;
    const struct json *root;
    struct buf text;

    json_out_init(&o);
    top_put_json(&top, &o);
    buf_init(&text, 1 << 20);
    json_out_finish(&o, &text);
    doc = parse(buf_str(&text));
    root = json_root(doc);
    assert_int_equal(show_u64(root, "creating"), 3);
    assert_int_equal(json_len(json_get(root, "boxes")), 3);
    assert_true(json_is_null(json_get(json_at(json_get(root, "boxes"), 0), "memory_bytes")));
    assert_int_equal(
        show_u64(json_get(json_get(json_get(root, "acquires"), "warm"), "all"), "count"), 100);
    assert_string_equal(show_str(json_at(json_get(root, "profiles"), 1), "reason"), "no image");
    (void) json_doc_free(doc);
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_at_once, start, stop),
        cmocka_unit_test_setup_teardown(test_every_size, start, stop),
        cmocka_unit_test_setup_teardown(test_small, start, stop),
        cmocka_unit_test_setup_teardown(test_hostile_text, start, stop),
        cmocka_unit_test_setup_teardown(test_numbers_are_not_cut, start, stop),
        cmocka_unit_test_setup_teardown(test_a_daemon_that_is_away, start, stop),
        cmocka_unit_test_setup_teardown(test_lists_scroll, start, stop),
        cmocka_unit_test_setup_teardown(test_json, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
