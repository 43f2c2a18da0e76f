/* The record of a stream beside a plain copy of everything that was written. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process/output.h"
#include "base/rand.h"
#include "tests/lib/unit.h"

enum { TOTAL = 400 * 1024 };

struct model {
    struct output_disk disk;
    struct output output;
    char *copy;
};

static void init(struct model *m, const char *dir, uint64_t stream_max, uint64_t total_max)
{
    struct rand r;

    memset(m, 0, sizeof(*m));
    m->disk.dir = dir;
    m->disk.stream_max = stream_max;
    m->disk.total_max = total_max;
    output_init(&m->output, &m->disk);
    m->copy = test_malloc(TOTAL);
    rand_seed(&r, 7);
    for (size_t i = 0; i < TOTAL; i++)
        m->copy[i] = (char) rand_below(&r, 256);
}

static void fini(struct model *m)
{
    output_fini(&m->output);
    assert_int_equal(m->disk.used, 0);
    test_free(m->copy);
}

/* Every kept byte is the right one; returns how many are kept. */
static uint64_t check(const struct model *m)
{
    const struct output *o = &m->output;
    uint64_t kept = 0;
    uint64_t at = output_seek(o, 0);

    while (at < o->end) {
        char chunk[777];
        size_t n = output_read(o, at, chunk, sizeof(chunk));

        assert_true(n > 0);
        assert_memory_equal(chunk, m->copy + at, n);
        kept += n;
        at = output_seek(o, at + n);
    }
    assert_int_equal(at, o->end);
    assert_int_equal(output_seek(o, o->end + 100), o->end);
    return kept;
}

static void fill(struct model *m, uint64_t seed)
{
    char space[9000]; /* one for all pieces, as the agent has it */
    struct rand r;

    rand_seed(&r, seed);
    for (unsigned i = 0; m->output.end < TOTAL; i++) {
        size_t len = (size_t) rand_between(&r, 1, sizeof(space));

        len = MIN_OF(len, (size_t) (TOTAL - m->output.end));
        memcpy(space, m->copy + m->output.end, len);
        output_append(&m->output, space, len);
        if (i % 7 == 0)
            (void) check(m);
    }
    output_forget(&m->disk); /* its memory goes */
    (void) check(m);
    output_finish(&m->output);
}

/* A reader that follows reads the newest piece from memory, and everything else from the disk. */
static void test_the_newest_is_read_from_memory(void **state)
{
    char piece[OUTPUT_LATE_MAX] = "0123456789";
    struct output other;
    struct model m;
    char got[10];

    (void) state;
    init(&m, "/tmp", 1024 * 1024, 1024 * 1024);
    output_init(&other, &m.disk);
    output_append(&m.output, m.copy, 50000);
    output_append(&m.output, piece, sizeof(piece));
    assert_int_equal(pwrite(m.output.fd, "on disk...", 10, 50000 - OUTPUT_HEAD_MAX), 10);
    assert_int_equal(output_read(&m.output, 50003, got, 7), 7);
    assert_memory_equal(got, "3456789", 7);
    assert_int_equal(output_read(&m.output, 49998, got, 2), 2);
    assert_memory_equal(got, m.copy + 49998, 2);
    output_append(&other, "another's", 9);
    assert_int_equal(output_read(&m.output, 50000, got, sizeof(got)), 10);
    assert_memory_equal(got, "on disk...", 10);
    output_fini(&other); /* the last one that was appended to */
    assert_int_equal(output_read(&m.output, 50000, got, sizeof(got)), 10);
    assert_memory_equal(got, "on disk...", 10);
    fini(&m);
}

static uint64_t on_disk(const struct model *m)
{
    struct stat st = {0};

    assert_int_equal(fstat(m->output.fd, &st), 0);
    return (uint64_t) st.st_size;
}

static void test_small_pieces_are_written_to_disk_together(void **state)
{
    const uint64_t first = 50000;
    struct model m;

    (void) state;
    init(&m, "/tmp", 1024 * 1024, 1024 * 1024);
    output_append(&m.output, m.copy, first);
    while (m.output.end < first + OUTPUT_LATE_MAX) {
        assert_int_equal(on_disk(&m), first - OUTPUT_HEAD_MAX);
        output_append(&m.output, m.copy + m.output.end, OUTPUT_LATE_MAX / 64);
        output_forget(&m.disk);
        assert_int_equal(check(&m), m.output.end);
    }
    output_append(&m.output, m.copy + m.output.end, 1);
    assert_int_equal(on_disk(&m), first + OUTPUT_LATE_MAX - OUTPUT_HEAD_MAX);
    output_append(&m.output, m.copy + m.output.end,
                  OUTPUT_LATE_MAX); /* what waits stays before it */
    assert_int_equal(on_disk(&m), m.output.end - OUTPUT_HEAD_MAX);
    assert_int_equal(check(&m), m.output.end);
    output_append(&m.output, m.copy + m.output.end, 10);
    output_finish(&m.output);
    assert_int_equal(on_disk(&m), m.output.end - OUTPUT_HEAD_MAX);
    assert_int_equal(check(&m), m.output.end);
    fini(&m);
}

static void test_all_is_kept_below_the_limits(void **state)
{
    struct model m;

    (void) state;
    init(&m, "/tmp", 1024 * 1024, 1024 * 1024);
    fill(&m, 1);
    assert_int_equal(check(&m), TOTAL);
    assert_int_equal(m.disk.used, TOTAL - OUTPUT_HEAD_MAX);
    output_finish(&m.output);
    assert_int_equal(check(&m), TOTAL);
    fini(&m);
}

static void test_full_file_becomes_a_ring(void **state)
{
    (void) state;
    for (uint64_t seed = 1; seed < 10; seed++) {
        struct model m;

        init(&m, "/tmp", 50000 + seed, 1024 * 1024);
        fill(&m, seed);
        assert_int_equal(check(&m), OUTPUT_HEAD_MAX + 50000 + seed);
        assert_int_equal(output_seek(&m.output, OUTPUT_HEAD_MAX), TOTAL - 50000 - seed);
        fini(&m);
    }
}

static void test_shared_disk_runs_out(void **state)
{
    struct model m;

    (void) state;
    init(&m, "/tmp", 1024 * 1024, 1024 * 1024);
    m.disk.total_max = 60000;
    fill(&m, 3);
    assert_int_equal(check(&m), OUTPUT_HEAD_MAX + 60000);
    fini(&m);
}

static void test_without_disk_both_ends_are_kept(void **state)
{
    struct model m;

    (void) state;
    init(&m, "/nonexistent/dir", 1024 * 1024, 1024 * 1024);
    fill(&m, 4);
    assert_int_equal(check(&m), OUTPUT_HEAD_MAX + OUTPUT_TAIL_MAX);
    assert_int_equal(m.disk.used, 0);
    fini(&m);
    init(&m, "/tmp", 1024 * 1024, 0); /* others have it all */
    fill(&m, 5);
    assert_int_equal(check(&m), OUTPUT_HEAD_MAX + OUTPUT_TAIL_MAX);
    fini(&m);
}

/* That there is none shows when small pieces are to be written, with what the next read has brought. */
static void test_nothing_is_lost_when_the_disk_turns_out_to_be_missing(void **state)
{
    struct model m;

    (void) state;
    init(&m, "/nonexistent/dir", 1024 * 1024, 1024 * 1024);
    output_append(&m.output, m.copy, OUTPUT_HEAD_MAX);
    for (unsigned i = 0; i < 2; i++)
        output_append(&m.output, m.copy + m.output.end, OUTPUT_LATE_MAX / 2);
    output_append(&m.output, m.copy + m.output.end, OUTPUT_READ_MAX);
    assert_int_equal(check(&m), OUTPUT_HEAD_MAX + OUTPUT_LATE_MAX + OUTPUT_READ_MAX);
    fini(&m);
}

static void test_summary(void **state)
{
    struct model m;
    struct buf text;

    (void) state;
    init(&m, "/tmp", 50000, 1024 * 1024);
    memset(m.copy, 'x', TOTAL);
    fill(&m, 6);
    buf_init(&text, 1024 * 1024);
    output_summary(&m.output, 0, TOTAL, 1000, &text);
    assert_non_null(strstr(text.data, "\n[... 408600 bytes left out ...]\n"));
    assert_in_range(text.len, 1000, 1100);
    buf_reset(&text);
    output_summary(&m.output, 10, 20, 1000, &text);
    assert_string_equal(text.data, "xxxxxxxxxx");
    buf_reset(&text);
    output_summary(&m.output, 0, TOTAL, TOTAL, &text); /* it would fit, but the middle is lost */
    assert_non_null(strstr(text.data, "bytes left out"));
    assert_in_range(text.len, OUTPUT_HEAD_MAX + 50000, OUTPUT_HEAD_MAX + 50100);
    buf_fini(&text);
    fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_kept_below_the_limits),
        cmocka_unit_test(test_full_file_becomes_a_ring),
        cmocka_unit_test(test_shared_disk_runs_out),
        cmocka_unit_test(test_without_disk_both_ends_are_kept),
        cmocka_unit_test(test_nothing_is_lost_when_the_disk_turns_out_to_be_missing),
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_the_newest_is_read_from_memory),
        cmocka_unit_test(test_small_pieces_are_written_to_disk_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
