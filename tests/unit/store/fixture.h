/* fixture.h - a store in a directory of its own, driven by a small loop: an eventfd stands for the
 * wake-up of the real one, a fake clock for its time. Every wait is bounded. */
#ifndef TESTS_UNIT_STORE_FIXTURE_H
#define TESTS_UNIT_STORE_FIXTURE_H

#include <stdbool.h>

#include "base/rt.h"
#include "store/store.h"
#include "tests/lib/unit.h"

#define FIXTURE_WAIT_MS 20000
#define FIXTURE_WALL_MS 1000000ULL

struct fixture {
    char dir[64];
    char path[96];
    struct rt rt;
    int wake_fd;
    struct store_config config;
    struct store *store;
    unsigned downs;
    unsigned ups;
    char reason[256]; /* why it went down last */
};

/* A write that remembers how it ended. */
struct put {
    struct store_write w;
    bool is_done;
    int result;
    unsigned place; /* among all that have ended, from 1 */
};

void fixture_init(struct fixture *f);
void fixture_init_in(struct fixture *f, const char *parent); /* else it is $TMPDIR */
void fixture_fini(struct fixture *f); /* closes the store and removes the directory */
/* cmocka's setup and teardown, with the fixture as the state. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

void fixture_open(struct fixture *f);
void fixture_start(struct fixture *f);
void fixture_close(struct fixture *f);
/* Tries to open; the sentence of the refusal. */
int fixture_refused(struct fixture *f, struct err *err);

/* One turn: waits for a wake-up, drains, runs what is due. False when none came. */
bool fixture_turn(struct fixture *f, int timeout_ms);
/* Turns until nothing is in flight; fails the test when that takes too long. */
void fixture_settle(struct fixture *f);
/* Turns until the store is up (or down). */
void fixture_wait_up(struct fixture *f, bool is_up);

void fixture_submit(struct fixture *f, struct put *p);
/* Submits, settles, and gives the result. */
int fixture_write(struct fixture *f, struct put *p);

struct put put_box(uint64_t id, const char *state);
struct put put_lease(uint64_t id, const char *sandbox_id, uint64_t generation);
struct put put_deleting(uint64_t id, const char *sandbox_id, const char *end);
struct put put_forget(uint64_t id);
struct put put_meta(const char *key, const char *value);
struct put put_event(uint64_t id);

/* What a load finds, counted and with the last of each kept. */
struct image {
    size_t boxes;
    size_t past;
    size_t events;
    size_t metas;
    uint64_t first_event;
    uint64_t last_event;
    uint64_t box_ids[64];
    bool are_stale[64];
    char past_ids[64][32];
    uint64_t past_generations[64];
    uint64_t past_ended[64];
    char past_ends[64][32];
    uint64_t floor;
};
void fixture_load(struct fixture *f, struct image *ret);
/* Closes, opens again and loads; the store is not started. */
void fixture_reload(struct fixture *f, struct image *ret);

/* Runs SQL on the closed database through a connection of the test's own. */
void fixture_sql(struct fixture *f, const char *sql);
/* The number that a query gives, likewise. */
int64_t fixture_number(struct fixture *f, const char *sql);

#endif
