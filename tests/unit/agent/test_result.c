/* The answers of helpers, which are strangers: heads in pieces, signs of life, and what is not valid. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/file/frame.h"
#include "agent/file/result.h"
#include "agent/file/wire.h"
#include "tests/lib/unit.h"

static size_t give(struct file_result *r, const void *data, size_t len)
{
    const char *rest = NULL;

    return file_result_feed(r, data, len, &rest);
}

static void test_result_in_pieces(void **state)
{
    struct file_result r;
    struct file_head head;

    (void) state;
    file_head_init(&head, 404, 5);
    file_result_init(&r, false);
    for (size_t i = 0; i < sizeof(head); i++) {
        assert_false(file_result_has_head(&r));
        assert_int_equal(give(&r, (const char *) &head + i, 1), 0);
    }
    assert_true(file_result_has_head(&r));
    assert_int_equal(give(&r, "he", 2), 0);
    assert_false(file_result_is_done(&r));
    assert_int_equal(give(&r, "llo", 3), 0);
    assert_true(file_result_is_done(&r));
    assert_string_equal(buf_str(&r.body), "hello");
    file_result_fini(&r);
}

static void test_result_of_long_work(void **state)
{
    struct file_head heads[3];
    struct file_result r;
    const char *rest;

    (void) state;
    file_head_init(&heads[0], FILE_STATUS_WORKING, 0);
    heads[1] = heads[0];
    file_head_init(&heads[2], 200, 2);
    for (size_t cut = 1; cut < sizeof(heads); cut++) {
        file_result_init(&r, true);
        assert_int_equal(file_result_feed(&r, (const char *) heads, cut, &rest), 0);
        assert_false(file_result_has_head(&r));
        assert_int_equal(
            file_result_feed(&r, (const char *) heads + cut, sizeof(heads) - cut, &rest), 0);
        assert_true(file_result_has_head(&r));
        assert_int_equal(file_result_feed(&r, "ok", 2, &rest), 0); /* it is kept */
        assert_true(file_result_is_done(&r));
        assert_string_equal(buf_str(&r.body), "ok");
        file_result_fini(&r);
    }
    file_result_init(&r, false); /* a call with a deadline has no signs of life */
    assert_int_equal(file_result_feed(&r, (const char *) heads, sizeof(heads[0]), &rest), 0);
    assert_true(r.is_bad);
    file_result_fini(&r);
}

static void test_result_that_is_none(void **state)
{
    struct file_head good;
    struct file_head bad[11];
    struct file_result r;

    (void) state;
    file_head_init(&good, 200, 4);
    good.form = FILE_FORM_SIZED;
    good.size = 10;
    good.start = 2;
    good.end = 6;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].magic++;
    bad[1].status = 0;
    bad[2].status = 100000;
    bad[3].len = 5; /* more than the range has */
    bad[4].start = 7;
    bad[5].end = 11;
    bad[6].mtime_ns = UINT32_MAX;
    bad[7].size = UINT64_MAX;
    bad[8].form = FILE_FORM_COUNT;
    bad[9].form = FILE_FORM_FRAMES; /* with a length */
    bad[10].status = FILE_STATUS_WORKING;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        file_result_init(&r, true);
        assert_int_equal(give(&r, &bad[i], sizeof(bad[i])), 0);
        assert_true(r.is_bad || !file_result_has_head(&r));
        file_result_fini(&r);
    }
    file_result_init(&r, true);
    assert_int_equal(give(&r, &good, sizeof(good)), 0);
    assert_int_equal(give(&r, "abcd", 4), 4);
    assert_true(file_result_is_done(&r));
    assert_int_equal(give(&r, "e", 1), 0); /* more than announced */
    assert_true(r.is_bad);
    file_result_fini(&r);
    file_head_init(&good, 200, FILE_RESULT_BODY_MAX + 1);
    file_result_init(&r, false);
    assert_int_equal(give(&r, &good, sizeof(good)), 0);
    assert_true(r.is_bad);
    assert_int_equal(r.body.cap, 0); /* nothing is reserved for bytes that are only announced */
    file_result_fini(&r);
}

/* A helper that is slow: before the answer the sign of life is a head, between its pieces it has to be a frame. */
static void test_signs_of_life(void **state)
{
    struct file_head head;
    struct file_frame frame;
    struct file_wire wire;
    int ends[2];

    (void) state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    file_wire_init(&wire, ends[0]);
    wire.worked_ns = 0;
    assert_true(file_wire_is_wanted(&wire));
    assert_int_equal(recv(ends[1], &head, sizeof(head), MSG_WAITALL), sizeof(head));
    assert_int_equal(head.status, FILE_STATUS_WORKING);
    assert_true(file_wire_begin(&wire, 0));
    assert_int_equal(recv(ends[1], &head, sizeof(head), MSG_WAITALL), sizeof(head));
    assert_int_equal(head.status, 200);
    assert_true(file_wire_is_wanted(&wire)); /* the last one was just now */
    wire.worked_ns = 0;
    assert_true(file_wire_is_wanted(&wire));
    assert_true(file_wire_end(&wire));
    assert_int_equal(recv(ends[1], &frame, sizeof(frame), MSG_WAITALL), sizeof(frame));
    assert_int_equal(frame.kind, FILE_FRAME_DATA);
    assert_int_equal(frame.len, 0);
    assert_int_equal(recv(ends[1], &frame, sizeof(frame), MSG_WAITALL), sizeof(frame));
    assert_int_equal(frame.kind, FILE_FRAME_END);
    file_wire_fini(&wire);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result_in_pieces),
        cmocka_unit_test(test_result_of_long_work),
        cmocka_unit_test(test_result_that_is_none),
        cmocka_unit_test(test_signs_of_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
