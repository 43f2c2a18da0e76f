/* test_store_meter.c - a million changes of rows, by processes that are killed again and again, with one box that changes as often as all
 * others together, and room for a twentieth of the intervals: the metered time equals that of exact bookkeeping, to the millisecond and to the smallest part of the price. After a kill the store holds the changes up to
 * some place at or after the last that was acknowledged; the books are kept up to that place, and the walk goes on from there. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rand.h"
#include "base/str.h"
#include "fixture.h"
#include "store/budget.h"
#include "store/usage.h"

#define CHANGES 1000000ULL /* METER_CHANGES */
#define FLIGHT 960
#define BOXES 64
#define TOGGLER 6 /* its box is changed as often as all others together */
#define ROWS (CHANGES / 20)
#define USERS 6

static const char *const users[USERS] = {"u0", "u1", "u2", "u3", "u4", "u5"};
static const struct store_price prices[] = {
    {0, 0, ""}, {1, 0, "EUR"}, {123456789, 0, "EUR"}, {99999999999, 13, "EUR"}, {7, 1, "EUR"}};

enum now { GONE, BLANK, LEASED, PARKED, PAUSED, DELETING };

/* One change, as the script makes it and as the store gets it. */
struct change {
    struct put put;
    uint64_t number;
    uint64_t at_ms;
    uint64_t box;
    enum now next;
    unsigned user;
    unsigned price;
    uint64_t generation;
    uint64_t true_ms; /* 0: at_ms */
};

/* The books. */
struct account {
    bool is_open;
    uint64_t number; /* of the last change, to find the place after a kill */
    bool is_there;
    enum now now;
    unsigned user;
    unsigned price;
    uint64_t generation;
    uint64_t since_ms;
    bool is_start_due; /* the interval has the price of the start */
    /* What the row says of its owner: closed intervals. */
    uint64_t used_ms[STORE_METER_COUNT];
    unsigned __int128 used_nominal;
};

struct books {
    struct account accounts[BOXES];
    uint64_t ms[USERS][STORE_METER_COUNT];
    unsigned __int128 nominal[USERS];
};

struct script {
    struct rand rand;
    uint64_t next;
    uint64_t at_ms;
};

static uint64_t from_env(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    uint64_t n = fallback;

    if (text != NULL && !str_parse_u64(text, 1, UINT64_MAX, &n))
        fail_msg("%s is no number", name);
    return n;
}

/* --- the script: whatever comes, also what no pool would do --- */

static void script_next(struct script *s, struct change *c)
{
    static const enum now likely[] = {BLANK,  LEASED, LEASED,   LEASED, PARKED,
                                      PARKED, PAUSED, DELETING, GONE};

    *c = (struct change){.number = ++s->next};
    s->at_ms += rand_below(&s->rand, 4);
    c->at_ms = s->at_ms;
    c->box = rand_below(&s->rand, 2) == 0 ? TOGGLER : 1 + rand_below(&s->rand, BOXES);
    c->next = likely[rand_below(&s->rand, ARRAY_LEN(likely))];
    c->user = (unsigned) (c->box % USERS);
    c->generation = 1 + rand_below(&s->rand, 16) / 15; /* mostly the same binding */
    c->price = (unsigned) (rand_below(&s->rand, 16) < 15 ? c->box % 5 : rand_below(&s->rand, 5));
    if (rand_below(&s->rand, 4) == 0 &&
        (c->next == DELETING || c->next == GONE)) /* when it was seen last */
        c->true_ms = c->at_ms - rand_below(&s->rand, 2000);
}

static bool is_owned(enum now now)
{
    return now != BLANK && now != GONE;
}

static void change_fill(struct change *c)
{
    static const char *const states[] = {"", "blank", "leased", "parked", "leased", "deleting"};

    if (c->next == GONE)
        c->put = put_forget(c->box);
    else if (c->next == BLANK)
        c->put = put_box(c->box, "blank");
    else if (c->next == DELETING)
        c->put = put_deleting(c->box, users[c->user], "died");
    else
        c->put = put_lease(c->box, users[c->user], c->generation);
    c->put.w.u.box.true_ms = c->true_ms;
    c->put.w.u.box.created_ms = c->number;
    if (c->next == GONE)
        return;
    c->put.w.u.box.state = states[c->next];
    c->put.w.u.box.is_paused = c->next == PAUSED;
    c->put.w.u.box.user = is_owned(c->next) ? users[c->user] : "";
    c->put.w.u.box.thread = is_owned(c->next) ? "t" : "";
    c->put.w.u.box.profile = "p";
    c->put.w.u.box.principal = is_owned(c->next) ? c->user : 0;
    c->put.w.u.box.price = prices[c->price];
    c->put.w.u.box.generation = c->generation;
}

/* --- the books --- */

static bool is_metered(enum now now)
{
    return now == LEASED || now == PARKED || now == PAUSED;
}

static void account_close(struct books *b, const struct account *a, uint64_t at_ms)
{
    uint64_t ms = at_ms > a->since_ms ? at_ms - a->since_ms : 0;

    b->ms[a->user][a->now - LEASED] += ms;
    b->nominal[a->user] += (unsigned __int128) prices[a->price].per_hour * ms;
}

static void account_use(struct account *a, uint64_t at_ms)
{
    uint64_t ms = at_ms > a->since_ms ? at_ms - a->since_ms : 0;

    a->used_ms[a->now - LEASED] += ms;
    a->used_nominal += store_usage_nominal(prices[a->price].per_hour, ms,
                                           a->is_start_due ? prices[a->price].per_start : 0);
}

static bool is_same_owner(const struct account *a, const struct change *c)
{
    return a->is_there && c->next != GONE && is_owned(a->now) == is_owned(c->next) &&
           (!is_owned(a->now) || a->user == c->user) && a->generation == c->generation;
}

static void books_apply(struct books *b, const struct change *c)
{
    struct account *a = &b->accounts[c->box - 1];
    uint64_t at_ms = c->true_ms != 0 ? c->true_ms : c->at_ms;
    bool was_open = a->is_open;
    bool is_bound =
        was_open && is_metered(c->next) && a->user == c->user && a->generation == c->generation;

    bool is_kept = is_same_owner(a, c);

    a->number = c->number;
    a->is_there = c->next != GONE;
    if (is_bound && a->now == c->next &&
        (a->price == c->price)) /* nothing that counts has changed */
        return;
    if (was_open) {
        account_close(b, a, at_ms);
        account_use(a, at_ms);
        at_ms = at_ms > a->since_ms ? at_ms : a->since_ms; /* time does not run backwards */
    }
    if (!is_kept) {
        memset(a->used_ms, 0, sizeof(a->used_ms));
        a->used_nominal = 0;
    }
    a->is_open = is_metered(c->next);
    a->is_start_due = !is_bound;
    a->now = c->next;
    a->user = c->user;
    a->price = c->price;
    a->generation = c->generation;
    a->since_ms = at_ms;
    if (a->is_open && !is_bound)
        b->nominal[a->user] += (unsigned __int128) prices[a->price].per_start * 3600000 * 1000000;
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

        if (seen->numbers[i] != (a->is_there ? a->number : 0))
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
    for (size_t i = 0; i < BOXES; i++)
        if (b->accounts[i].is_open)
            account_close(b, &b->accounts[i], at_ms);
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
        unsigned __int128 nominal = 0;

        for (struct list_node *n = list_first(&u.sum_list); n != NULL;
             n = list_next(&u.sum_list, n)) {
            const struct store_sum *sum = container_of(n, struct store_sum, link);

            if (strcmp(sum->user, users[user]) != 0)
                continue;
            nominal += sum->nominal;
            for (size_t i = 0; i < STORE_METER_COUNT; i++)
                ms[i] += sum->ms[i];
        }
        for (size_t i = 0; i < STORE_METER_COUNT; i++)
            assert_int_equal(ms[i], b->ms[user][i]);
        assert_true(nominal == b->nominal[user]);
        store_get_budget(f->store, users[user], &spent);
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

/* Plays the script up to the place that the store has come to. */
static void catch_up(struct fixture *f, struct script *script, struct books *books, uint64_t acked)
{
    struct seen *seen = calloc(1, sizeof(*seen));
    struct store_reader reader = {.ctx = seen, .on_box = see_box};
    struct err err;
    uint64_t last = acked + FLIGHT;

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
