/* fixture.c - see fixture.h. The order in which writes end is counted globally, so that tests can
 * compare it with the order of submission. */
#include "fixture.h"

#include <errno.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "store/internal.h"

static unsigned places;

static void on_wake(void *ctx)
{
    struct fixture *f = ctx;
    uint64_t one = 1;
    ssize_t n = write(f->wake_fd, &one, sizeof(one));

    assert(n == (ssize_t) sizeof(one) || errno == EAGAIN);
    (void) n;
}

static void on_state(void *ctx, bool is_up, const char *reason)
{
    struct fixture *f = ctx;

    if (is_up) {
        f->ups++;
        return;
    }
    f->downs++;
    str_copy_cut(f->reason, sizeof(f->reason), reason);
}

void fixture_init(struct fixture *f)
{
    const char *top = getenv("TMPDIR");

    fixture_init_in(f, top == NULL ? "/tmp" : top);
}

void fixture_init_in(struct fixture *f, const char *parent)
{
    *f = (struct fixture){0};
    (void) snprintf(f->dir, sizeof(f->dir), "%.32s/sandpool-store-XXXXXX", parent);
    assert_non_null(mkdtemp(f->dir));
    (void) snprintf(f->path, sizeof(f->path), "%s/state.db", f->dir);
    rt_init_fake(&f->rt, NS_PER_S, FIXTURE_WALL_MS);
    f->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(f->wake_fd >= 0);
    f->config = (struct store_config){
        .path = f->path,
        .rt = &f->rt,
        .queue_max = 1024,
        .batch_max = 64,
        .events_max = 10000,
        .past_max = 10000,
        .wake = on_wake,
        .on_state = on_state,
        .ctx = f,
    };
}

void fixture_fini(struct fixture *f)
{
    const char *const suffixes[] = {"",         "-wal",   "-shm",  "-journal",
                                    "-reserve", "-stamp", ".away", ".away-wal"};
    char name[160];

    fixture_close(f);
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        (void) snprintf(name, sizeof(name), "%s%s", f->path, suffixes[i]);
        (void) unlink(name); /* most of them are not there */
    }
    assert_int_equal(rmdir(f->dir), 0);
    (void) close(f->wake_fd);
    rt_fini(&f->rt);
}

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    fixture_init(f);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture_fini(*state);
    free(*state);
    return 0;
}

void fixture_open(struct fixture *f)
{
    struct err err = {0};

    assert_null(f->store);
    if (store_open(&f->config, &f->store, &err) != SP_OK)
        fail_msg("store_open: %s", err.msg);
    f->store->retry_min_ns = 2 * NS_PER_MS; /* tests of failures need not wait long */
    f->store->retry_ns = 2 * NS_PER_MS;
    f->store->retry_max_ns = 20 * NS_PER_MS;
}

void fixture_start(struct fixture *f)
{
    struct err err = {0};

    if (f->store == NULL)
        fixture_open(f);
    if (store_start(f->store, &err) != SP_OK)
        fail_msg("store_start: %s", err.msg);
}

void fixture_close(struct fixture *f)
{
    f->store = store_close(f->store);
    rt_run(&f->rt);
}

int fixture_refused(struct fixture *f, struct err *err)
{
    int r = store_open(&f->config, &f->store, err);

    if (r == SP_OK)
        fail_msg("the store was opened, it should have been refused");
    print_message("refused: %s\n", err->msg);
    return r;
}

bool fixture_turn(struct fixture *f, int timeout_ms)
{
    struct pollfd p = {.fd = f->wake_fd, .events = POLLIN};
    uint64_t n;
    bool is_woken;

    rt_run(&f->rt);
    is_woken = poll(&p, 1, timeout_ms) > 0;
    if (is_woken) {
        ssize_t got = read(f->wake_fd, &n, sizeof(n));

        assert_int_equal(got, sizeof(n));
        store_drain(f->store);
    }
    rt_run(&f->rt);
    return is_woken;
}

void fixture_settle(struct fixture *f)
{
    rt_run(&f->rt);
    while (store_pending(f->store) > 0) {
        if (!fixture_turn(f, FIXTURE_WAIT_MS))
            fail_msg("%zu writes hang", store_pending(f->store));
    }
}

void fixture_wait_up(struct fixture *f, bool is_up)
{
    while (store_is_up(f->store) != is_up) {
        if (!fixture_turn(f, FIXTURE_WAIT_MS))
            fail_msg("the store stays %s", is_up ? "down" : "up");
    }
}

static void on_done(struct op *op)
{
    struct put *p = container_of(op, struct put, w.op);

    assert_false(p->is_done);
    p->is_done = true;
    p->result = op->result;
    p->place = ++places;
}

void fixture_submit(struct fixture *f, struct put *p)
{
    p->is_done = false;
    store_submit(f->store, &p->w, on_done);
    assert_false(p->is_done); /* never from inside */
}

int fixture_write(struct fixture *f, struct put *p)
{
    fixture_submit(f, p);
    fixture_settle(f);
    assert_true(p->is_done);
    return p->result;
}

struct put put_box(uint64_t id, const char *state)
{
    struct put p = {.w = {.kind = STORE_PUT_BOX, .u.box = {.id = id, .state = state}}};

    return p;
}

struct put put_lease(uint64_t id, const char *sandbox_id, uint64_t generation)
{
    struct put p = put_box(id, "leased");

    p.w.kind = STORE_PUT_LEASE;
    p.w.u.box.sandbox_id = sandbox_id;
    p.w.u.box.generation = generation;
    return p;
}

struct put put_deleting(uint64_t id, const char *sandbox_id, const char *end)
{
    struct put p = put_box(id, "deleting");

    p.w.kind = STORE_DELETING;
    p.w.u.box.sandbox_id = sandbox_id;
    p.w.u.box.end = end;
    return p;
}

struct put put_forget(uint64_t id)
{
    struct put p = {.w = {.kind = STORE_FORGET, .u.box = {.id = id}}};

    return p;
}

struct put put_meta(const char *key, const char *value)
{
    struct put p = {.w = {.kind = STORE_PUT_META, .u.meta = {key, value}}};

    return p;
}

struct put put_event(uint64_t id)
{
    struct put p = {.w = {.kind = STORE_ADD_EVENT,
                          .u.event = {.id = id, .at_ms = id, .kind = "test", .body = "{}"}}};

    return p;
}

static bool see_box(void *ctx, const struct store_box *box)
{
    struct image *image = ctx;

    if (image->boxes < ARRAY_LEN(image->box_ids)) {
        image->box_ids[image->boxes] = box->id;
        image->are_stale[image->boxes] = box->is_stale;
    }
    image->boxes++;
    return true;
}

static bool see_past(void *ctx, const struct store_past *past)
{
    struct image *image = ctx;
    size_t i = image->past++;

    if (i < ARRAY_LEN(image->past_ids)) {
        str_copy_cut(image->past_ids[i], sizeof(image->past_ids[i]), past->sandbox_id);
        str_copy_cut(image->past_ends[i], sizeof(image->past_ends[i]), past->end);
        image->past_generations[i] = past->generation;
        image->past_ended[i] = past->ended_ms;
    }
    return true;
}

static bool see_event(void *ctx, const struct store_event *event)
{
    struct image *image = ctx;

    if (image->events == 0)
        image->first_event = event->id;
    assert_true(image->events == 0 || event->id > image->last_event);
    image->last_event = event->id;
    image->events++;
    return true;
}

static bool see_meta(void *ctx, const char *key, const char *value)
{
    struct image *image = ctx;

    assert_int_equal(image->boxes, 0); /* meta rows come before all others */
    image->metas++;
    if (strcmp(key, "generation_floor") == 0)
        assert_true(str_parse_u64(value, 0, UINT64_MAX, &image->floor));
    return true;
}

void fixture_load(struct fixture *f, struct image *ret)
{
    struct store_reader reader = {.ctx = ret,
                                  .on_box = see_box,
                                  .on_past = see_past,
                                  .on_event = see_event,
                                  .on_meta = see_meta,
                                  .events_tail = UINT32_MAX};
    struct err err = {0};

    *ret = (struct image){0};
    if (store_load(f->store, &reader, &err) != SP_OK)
        fail_msg("store_load: %s", err.msg);
}

void fixture_reload(struct fixture *f, struct image *ret)
{
    fixture_close(f);
    fixture_open(f);
    fixture_load(f, ret);
}

void fixture_sql(struct fixture *f, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    assert_null(f->store);
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int64_t fixture_number(struct fixture *f, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    int64_t number;

    assert_null(f->store);
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    number = sqlite3_column_int64(stmt, 0);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return number;
}
