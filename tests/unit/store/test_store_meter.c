/* test_store_meter.c - a million changes of rows, by processes that are killed again and again, with one box that changes as often as all
 * others together, samples of what boxes use between them, and room for a twentieth of the intervals: time, what was used, and what it all costs equal exact bookkeeping, to the millisecond and to the smallest part of the price. After a kill the store holds the changes up to
 * some place at or after the last that was acknowledged; the books are kept up to that place, and the walk goes on from there. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "meter_books.h"
#include "store/budget.h"

#define CHANGES 1000000ULL /* METER_CHANGES */
#define FLIGHT 960
#define ROWS (CHANGES / 20)

static uint64_t from_env(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    uint64_t n = fallback;

    if (text != NULL && !str_parse_u64(text, 1, UINT64_MAX, &n))
        fail_msg("%s is no number", name);
    return n;
}

/* --- a life --- */

struct runner {
    struct fixture *f;
    struct script script;
    struct change changes[FLIGHT];
    uint64_t acked;
    uint64_t submitted;
    uint64_t limit;
    int ack_fd;
};

static struct runner *current; /* on_done() has no other way to it */

static void on_change_done(struct op *op);

static void submit_next(struct runner *r, struct change *c)
{
    script_next(&r->script, c);
    change_fill(c);
    r->submitted++;
    rt_advance(&r->f->rt, (c->at_ms - rt_wall_ms(&r->f->rt)) * NS_PER_MS);
    store_submit(r->f->store, &c->put.w, on_change_done);
}

static void on_change_done(struct op *op)
{
    struct runner *r = current;
    struct change *c = container_of(op, struct change, put.w.op);

    if (op->result != SP_OK)
        fail_msg("change %llu: %s", (unsigned long long) c->number, op->err.msg);
    r->acked = c->number;
    if (r->submitted < r->limit)
        submit_next(r, c);
}

/* Reports after each turn how far it has come. It never ends by itself, unless the walk does. */
static void be_the_child(struct fixture *f, const struct script *script, uint64_t count, int ack_fd)
{
    struct runner *r = calloc(1, sizeof(*r));

    (void) alarm(120); /* a child that hangs is a failure, not an orphan */
    *r = (struct runner){.f = f, .script = *script, .limit = count, .ack_fd = ack_fd};
    current = r;
    rt_advance(&f->rt, (script->at_ms - rt_wall_ms(&f->rt)) * NS_PER_MS);
    fixture_start(f);
    for (unsigned i = 0; i < FLIGHT && r->submitted < count; i++)
        submit_next(r, &r->changes[i]);
    while (store_pending(f->store) > 0) {
        if (!fixture_turn(f, FIXTURE_WAIT_MS))
            _exit(4);
        if (write(ack_fd, &r->acked, sizeof(r->acked)) != sizeof(r->acked))
            _exit(5);
    }
    fixture_close(f);
    _exit(0);
}

/* How far it had come when it was killed, at about `kill_at` changes; 0: it came to its end. */
static uint64_t live(struct fixture *f, const struct script *script, uint64_t count,
                     uint64_t kill_at, bool *ret_is_whole)
{
    uint64_t acked = script->next;
    uint64_t n = 0;
    bool is_killed = false;
    int status = 0;
    int fds[2];
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void) close(fds[0]);
        be_the_child(f, script, count, fds[1]);
    }
    (void) close(fds[1]);
    while (read(fds[0], &n, sizeof(n)) == (ssize_t) sizeof(n)) {
        acked = n > acked ? n : acked;
        if (!is_killed && acked >= kill_at) {
            is_killed = true;
            assert_int_equal(kill(pid, SIGKILL), 0);
        }
    }
    (void) close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    *ret_is_whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!*ret_is_whole && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        fail_msg("the child ended with status %x", (unsigned) status);
    return acked;
}

/* --- comparing --- */

struct seen {
    uint64_t numbers[BOXES]; /* 0: no row */
    uint64_t samples[BOXES]; /* likewise, of what was counted */
    struct store_used used[BOXES];
};

static bool see_box(void *ctx, const struct store_box *box)
{
    ((struct seen *) ctx)->numbers[box->id - 1] = box->created_ms;
    ((struct seen *) ctx)->used[box->id - 1] = *box->used;
    return true;
}

static bool is_at(const struct books *b, const struct seen *seen)
{
    for (size_t i = 0; i < BOXES; i++) {
        const struct account *a = &b->accounts[i];

        if (seen->numbers[i] != (a->is_there ? a->number : 0) || seen->samples[i] != a->sample)
            return false;
    }
    return true;
}

static void compare(struct fixture *f, const struct books *now, uint64_t at_ms)
{
    struct books *b = calloc(1, sizeof(*b));
    struct store_budget spent;
    struct store_usage u;
    struct put p = {.w = {.kind = STORE_READ_USAGE, .u.usage = &u}};

    *b = *now;
    books_close(b, at_ms);
    store_usage_init(&u);
    u.by = STORE_BY_USER;
    u.max = 100;
    u.scan_max = 5000;
    while (!u.is_end) {
        u.is_stepped = false;
        assert_int_equal(fixture_write(f, &p), SP_OK);
    }
    for (unsigned user = 0; user < USERS; user++) {
        uint64_t ms[STORE_METER_COUNT] = {0};
        struct store_counts counts = {.known = 0};
        unsigned __int128 nominal = 0;

        for (struct list_node *n = list_first(&u.sum_list); n != NULL;
             n = list_next(&u.sum_list, n)) {
            const struct store_sum *sum = container_of(n, struct store_sum, link);

            if (strcmp(sum->user, meter_users[user]) != 0)
                continue;
            nominal += sum->nominal;
            store_counts_add(&counts, &sum->counts);
            for (size_t i = 0; i < STORE_METER_COUNT; i++)
                ms[i] += sum->ms[i];
        }
        for (size_t i = 0; i < STORE_METER_COUNT; i++)
            assert_int_equal(ms[i], b->ms[user][i]);
        for (size_t k = 0; k < STORE_COUNTER_COUNT; k++)
            assert_int_equal(counts.n[k], b->counts[user].n[k]);
        assert_true(nominal == b->nominal[user]);
        store_get_budget(f->store, meter_users[user], &spent);
        assert_int_equal(spent.spent, (uint64_t) (nominal / STORE_NOMINAL_MICRO));
    }
    store_usage_fini(&u);
    free(b);
}

/* No two intervals of a box overlap, and none is negative. Returns the number of rows. */
static uint64_t check_order(struct fixture *f)
{
    static const char text[] =
        "SELECT count(*) FROM (SELECT began_ms, ended_ms, lag(ended_ms) OVER (PARTITION BY box_id ORDER BY id) "
        "AS before FROM usage WHERE folded = 0) WHERE began_ms < before OR ended_ms < began_ms";
    sqlite3 *conn = NULL;
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_open(f->path, &conn), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(conn, text, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int64(stmt, 0), 0);
    (void) sqlite3_finalize(stmt);
    (void) sqlite3_close(conn);
    return (uint64_t) fixture_number(f, "SELECT count(*) FROM usage");
}

static void compare_used(const struct books *b, const struct seen *seen)
{
    for (size_t i = 0; i < BOXES; i++) {
        const struct account *a = &b->accounts[i];
        const struct store_used *used = &seen->used[i];

        if (!a->is_there)
            continue;
        for (size_t s = 0; s < STORE_METER_COUNT; s++)
            assert_int_equal(used->ms[s], a->used_ms[s]);
        assert_true((unsigned __int128) used->micros * STORE_NOMINAL_MICRO + used->rest ==
                    a->used_nominal);
    }
}

/* The last sample of each box, before the store opens what the kill has left, and without doing its work. */
static void see_samples(struct fixture *f, struct seen *seen)
{
    sqlite3 *conn = NULL;
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_open(f->path, &conn), SQLITE_OK);
    assert_int_equal(sqlite3_db_config(conn, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(conn, "SELECT box_id, seen_net_out FROM counters", -1, &stmt, NULL),
        SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        seen->samples[sqlite3_column_int64(stmt, 0) - 1] = (uint64_t) sqlite3_column_int64(stmt, 1);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    assert_int_equal(sqlite3_close(conn), SQLITE_OK);
}

/* Plays the script up to the place that the store has come to. */
static void catch_up(struct fixture *f, struct script *script, struct books *books, uint64_t acked)
{
    struct seen *seen = calloc(1, sizeof(*seen));
    struct store_reader reader = {.ctx = seen, .on_box = see_box};
    struct err err;
    uint64_t last = acked + FLIGHT;

    see_samples(f, seen);
    fixture_open(f);
    assert_int_equal(store_load(f->store, &reader, &err), SP_OK);
    while (script->next < acked || !is_at(books, seen)) {
        struct change c;

        if (script->next >= last)
            fail_msg("after %llu acknowledged changes the rows are those of no place",
                     (unsigned long long) acked);
        script_next(script, &c);
        books_apply(books, &c);
    }
    compare_used(books, seen);
    free(seen);
}

static void test_a_million_changes(void **state)
{
    uint64_t changes = from_env("METER_CHANGES", CHANGES);
    struct script script = {.at_ms = FIXTURE_WALL_MS};
    struct books *books = calloc(1, sizeof(*books));
    struct fixture f;
    struct rand rand;
    unsigned kills = 0;

    (void) state;
    rand_seed(&rand, from_env("METER_SEED", 1));
    rand_seed(&script.rand, from_env("METER_SEED", 1));
    fixture_init_in(&f, access("/dev/shm", W_OK) == 0
                            ? "/dev/shm"
                            : "/tmp"); /* gigabytes, and no power is cut */
    f.config.want_usage = true;
    f.config.usage_max = ROWS;
    f.config.usage_ms = INT64_MAX;
    f.config.budget_currency = "EUR";
    f.config.batch_max = 960;
    while (script.next < changes) {
        uint64_t left = changes - script.next;
        bool is_whole;
        uint64_t acked =
            live(&f, &script, left, script.next + 1 + rand_below(&rand, changes / 12), &is_whole);

        catch_up(&f, &script, books, acked);
        kills += is_whole ? 0 : 1;
        /* The machine is off for a while; what has an owner goes on, or its end comes with its time. */
        script.at_ms += rand_below(&rand, 100000);
        rt_advance(&f.rt, (script.at_ms - rt_wall_ms(&f.rt)) * NS_PER_MS);
        assert_int_equal(store_start(f.store, NULL), SP_OK);
        compare(&f, books, script.at_ms);
        fixture_close(&f);
    }
    print_message("%llu changes, %u kills\n", (unsigned long long) script.next, kills);
    assert_true(check_order(&f) < ROWS + 8192);
    if (changes == CHANGES)
        assert_true(fixture_number(&f, "SELECT sum(folded) FROM usage") > (int64_t) CHANGES / 10);
    assert_true(kills >= 5);
    fixture_fini(&f);
    free(books);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_million_changes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
