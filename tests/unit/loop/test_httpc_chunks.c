/* Chunks of answers: cut anywhere, damaged, with too much around them, and so small that they are nothing
 * but work. The work is counted in bytes of bodies per turn of the loop. */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/effort.h"
#include "tests/lib/unit.h"
#include "tests/unit/loop/stream_call.h"

enum {
    COUNT = 24,
    KIB = 128,
    COST = 1 + 5 * EFFORT_FRAMING, /* of a chunk of one byte */
    PIECE = 65536 / 6 + 1,         /* chunks of one read, which is not cut */
    /* A pass of loop_run_once() begins in the middle of one turn and ends in the middle of the next. */
    PASS_MAX = 2 * (EFFORT_ALL_MAX / COST + PIECE),
};

static bool take_text(const char *text, size_t cut, size_t extra_max, struct buf *out)
{
    struct httpc_chunks c = {0};
    size_t len = strlen(text);

    cut = MIN_OF(cut, len);
    return httpc_chunks_take(&c, text, cut, extra_max, out) &&
           httpc_chunks_take(&c, text + cut, len - cut, extra_max, out);
}

static void test_cut_anywhere(void **state)
{
    static const char text[] = "5;a=b\r\nhello\r\n00b\n, wonderful\r\n"
                               "1\r\n!\r\n0\r\nTrailer: x\r\n\r\n";
    struct buf out;

    (void) state;
    for (size_t cut = 0; cut <= strlen(text); cut++) {
        buf_init(&out, 100);
        assert_true(take_text(text, cut, 100, &out));
        assert_string_equal(buf_str(&out), "hello, wonderful!");
        buf_fini(&out);
    }
}

static void test_damaged(void **state)
{
    static const char *const texts[] = {"x\r\n",        "\r\n",         "-1\r\n",
                                        "2\r\nabc\r\n", "2\r\nab3\r\n", "1111111111111111\r\n"};
    struct buf out;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        buf_init(&out, 100);
        assert_false(take_text(texts[i], 1, 100, &out));
        buf_fini(&out);
    }
    buf_init(&out, 100);
    assert_true(take_text("1;0123456789\r\nx\r\n", 3, 10, &out));
    assert_false(take_text("1;0123456789abcdefghijklm\r\nx\r\n", 3, 10, &out));
    buf_fini(&out);
}

static void test_endless_extension(void **state)
{
    struct fixture *f = *state;
    struct stream s = {0};

    prepare_call(f, &s.call, "/flow-extensions");
    s.call.http.on_data = stream_on_data;
    assert_int_equal(run_call(&s.call), SP_PROTOCOL);
    assert_non_null(strstr(s.call.http.op.err.msg, "extensions"));
    assert_int_equal(s.got, 0);
    httpc_request_fini(&s.call.http);
}

static uint64_t sum_of(const struct stream *all)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < COUNT; i++)
        sum += all[i].got;
    return sum;
}

static void test_work_of_a_turn(void **state)
{
    struct fixture *f = *state;
    struct stream *all = test_calloc(COUNT, sizeof(*all));
    unsigned done = 0;
    uint64_t largest = 0;
    char path[40];

    snprintf(path, sizeof(path), "/flow-bytes/%d", KIB);
    for (size_t i = 0; i < COUNT; i++) {
        prepare_call(f, &all[i].call, path);
        all[i].call.http.on_data = stream_on_data;
        all[i].is_pausing = i % 4 == 0;
        start_call(&all[i].call, 60000);
    }
    while (done < COUNT) { /* each has its deadline */
        uint64_t before = sum_of(all);

        (void) loop_run_once(&f->loop);
        largest = MAX_OF(largest, sum_of(all) - before);
        done = 0;
        for (size_t i = 0; i < COUNT; i++)
            done += all[i].call.done;
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(all[i].call.result, SP_OK);
        assert_int_equal(all[i].got, KIB * 1024);
        stream_assert_answer(&all[i], 200, "");
    }
    assert_in_range(largest, 1, PASS_MAX);
    test_free(all);
}

/* Cancelled while they rest. */
static void test_end_while_resting(void **state)
{
    struct fixture *f = *state;
    struct stream *all = test_calloc(COUNT, sizeof(*all));

    for (size_t i = 0; i < COUNT; i++) {
        prepare_call(f, &all[i].call, "/flow-bytes/1024");
        all[i].call.http.on_data = stream_on_data;
        start_call(&all[i].call, 60000);
    }
    while (sum_of(all) < (uint64_t) COUNT * 16 * 1024)
        (void) loop_run_once(&f->loop);
    for (size_t i = 0; i < COUNT / 2; i++)
        cancel_call(&all[i].call);
    (void) loop_run_once(&f->loop);
    for (size_t i = COUNT / 2; i < COUNT; i++)
        cancel_call(&all[i].call);
    for (int i = 0; i < 10; i++)
        (void) loop_run_once(&f->loop);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(all[i].call.result, SP_CANCELLED);
        httpc_request_fini(&all[i].call.http);
    }
    test_free(all);
}

#define CHUNKS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere), cmocka_unit_test(test_damaged),
        CHUNKS_TEST(test_endless_extension), CHUNKS_TEST(test_work_of_a_turn),
        CHUNKS_TEST(test_end_while_resting),
    };

    return cmocka_run_group_tests(tests, set_up_process, NULL);
}
