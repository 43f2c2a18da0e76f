/* Records of jobs: bounded, found by number, small. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/process.h"
#include "tests/lib/unit.h"

static char command[] = "make -j2 test";
static char long_command[2 * RECORD_COMMAND_MAX + 1];
static char tag[] = "turn-12";

static void add(struct process_records *r, uint64_t id)
{
    struct process p = {.id = id,
                        .pid = (pid_t) (id % 30000) + 2,
                        .command = id % 2 == 0 ? command : long_command,
                        .tag = id % 3 == 0 ? tag : NULL,
                        .outcome = id % 5 == 0 ? PROCESS_KILLED : PROCESS_EXITED,
                        .exit_code = (int) (id % 256),
                        .signum = id % 5 == 0 ? 9 : 0,
                        .started_ns = id * 1000,
                        .ended_ns = id * 1000 + 7};

    p.streams[PROCESS_STDERR].output.end = id;
    records_add(r, &p);
}

static void check(const struct process_records *r, uint64_t id)
{
    const struct process_record *one = records_find(r, id);

    assert_non_null(one);
    assert_int_equal(one->id, id);
    assert_int_equal(one->exit_code, id % 256);
    assert_int_equal(one->outcome, id % 5 == 0 ? PROCESS_KILLED : PROCESS_EXITED);
    assert_int_equal(one->bytes[PROCESS_STDERR], id);
    assert_int_equal(one->ended_ns - one->started_ns, 7);
    assert_int_equal(strlen(record_command(one)),
                     id % 2 == 0 ? strlen(command) : RECORD_COMMAND_MAX);
    if (id % 3 == 0)
        assert_string_equal(record_tag(one), tag);
    else
        assert_null(record_tag(one));
}

static void test_records_are_bounded(void **state)
{
    size_t before = mallinfo2().uordblks;
    struct process_records r;
    uint64_t id;

    (void) state;
    memset(long_command, 'x', sizeof(long_command) - 1);
    records_init(&r);
    assert_null(records_find(&r, 1));
    for (id = 1; id <= RECORDS_MAX; id++)
        add(&r, id);
    print_message("%d records: %zu bytes each\n", RECORDS_MAX,
                  (mallinfo2().uordblks - before) / RECORDS_MAX);
    for (uint64_t i = 1; i < id; i += 37)
        check(&r, i);
    for (; id <= RECORDS_MAX + 1000; id++)
        add(&r, id);
    assert_int_equal(r.list.len, RECORDS_MAX);
    assert_null(records_find(&r, 1000)); /* the oldest */
    check(&r, 1001);
    check(&r, id - 1);
    assert_null(records_find(&r, id));
    records_fini(&r);
    assert_null(records_find(&r, id - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_records_are_bounded)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
