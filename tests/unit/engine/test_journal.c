/* test_journal.c - the ring of events: what is in it, what has fallen out, and holes that the store
 * left in an earlier run. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/journal.h"
#include "tests/lib/unit.h"

struct reader {
    struct journal_subscriber subscriber;
    struct journal *journal;
    unsigned notified;
    bool wants_out;
};

static int setup(void **state)
{
    struct journal *j = xcalloc(1, sizeof(*j));

    journal_init(j);
    *state = j;
    return 0;
}

static int teardown(void **state)
{
    journal_fini(*state);
    free(*state);
    return 0;
}

static void add(struct journal *j, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        (void) journal_add(j, i, "created", xstrdup("{}"), 7); /* looked at with journal_get() */
}

static void test_empty(void **state)
{
    const struct journal *j = *state;

    assert_int_equal(journal_newest(j), 0);
    assert_int_equal(journal_first_from(j, 1), 1);
    assert_null(journal_get(j, 0));
    assert_null(journal_get(j, 1));
}

static void test_ring_keeps_the_newest(void **state)
{
    struct journal *j = *state;

    add(j, JOURNAL_SIZE + 10);
    assert_int_equal(journal_newest(j), JOURNAL_SIZE + 10);
    assert_null(journal_get(j, 10));
    assert_int_equal(journal_get(j, 11)->id, 11);
    assert_int_equal(journal_first_from(j, 0), 11);
    assert_int_equal(journal_first_from(j, 10), 11);
    assert_int_equal(journal_first_from(j, 500), 500);
    assert_int_equal(journal_first_from(j, JOURNAL_SIZE + 11), JOURNAL_SIZE + 11);
    assert_null(journal_get(j, JOURNAL_SIZE + 11));
}

static void test_restore_continues_the_numbers(void **state)
{
    struct journal *j = *state;

    journal_restore(j, 5000, 1, "leased", "{\"a\":1}", 7);
    journal_restore(j, 5001, 2, "parked", "not an object", 7);
    assert_int_equal(journal_first_from(j, 1), 5000);
    assert_string_equal(journal_get(j, 5000)->body, "{\"a\":1}");
    assert_string_equal(journal_get(j, 5001)->body, "{}");
    add(j, 1);
    assert_int_equal(journal_newest(j), 5002);
}

/* Events that could not be stored are missing after a restart: a reader must get past the hole, and
 * never back to before it. */
static void test_hole(void **state)
{
    struct journal *j = *state;
    uint64_t id = 1;
    unsigned steps = 0;

    journal_restore(j, 9, 1, "a", "{}", 7);
    journal_restore(j, 10, 1, "a", "{}", 7);
    journal_restore(j, 15, 1, "a", "{}", 7);
    assert_int_equal(journal_first_from(j, 11), 15);
    for (id = journal_first_from(j, id); id <= journal_newest(j); steps++)
        id = journal_first_from(j, id + 1);
    assert_int_equal(steps, 3);
    assert_int_equal(id, 16);
}

/* After a crash, numbers that were shown but not stored are not given out again; what was stored is
 * still there. */
static void test_skip(void **state)
{
    struct journal *j = *state;

    journal_skip(j);
    assert_int_equal(journal_newest(j), 0); /* nothing was ever numbered */
    journal_restore(j, 100, 1, "a", "{}", 7);
    journal_restore(j, 101, 1, "a", "{}", 7);
    journal_skip(j);
    assert_true(journal_newest(j) > 1000);
    assert_int_equal(journal_first_from(j, 1), 100);
    assert_int_equal(journal_first_from(j, 102), journal_newest(j) + 1);
    add(j, 1);
    assert_int_equal(journal_first_from(j, 102), journal_newest(j));
}

static void on_event(struct journal_subscriber *s)
{
    struct reader *r = container_of(s, struct reader, subscriber);

    r->notified++;
    if (r->wants_out)
        journal_unsubscribe(r->journal, s);
}

static void test_subscribers_may_leave_when_notified(void **state)
{
    struct journal *j = *state;
    struct reader a = {.subscriber.on_event = on_event, .journal = j, .wants_out = true};
    struct reader b = {.subscriber.on_event = on_event, .journal = j};

    journal_subscribe(j, &a.subscriber);
    journal_subscribe(j, &b.subscriber);
    add(j, 3);
    assert_int_equal(a.notified, 1);
    assert_int_equal(b.notified, 3);
    journal_unsubscribe(j, &b.subscriber);
    journal_unsubscribe(j, &b.subscriber); /* twice is harmless */
    add(j, 1);
    assert_int_equal(b.notified, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ring_keeps_the_newest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restore_continues_the_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_skip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_subscribers_may_leave_when_notified, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
