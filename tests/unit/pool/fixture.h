/* fixture.h - a pool with a simple world around it: everything succeeds at once unless the test
 * requests otherwise. Effects are kept, so that a test can hold one back and answer it later. */
#ifndef TEST_POOL_FIXTURE_H
#define TEST_POOL_FIXTURE_H

#include "base/compiler.h"
#include "pool/pool.h"
#include "sandpool/errors.h"
#include "tests/lib/unit.h"

#define FIXTURE_FX_MAX 512

struct fixture_hold { /* true: effects of this kind wait for the test */
    bool store;
    bool create;
    bool probe;
    bool check;
    bool discover;
    bool destroy;
    bool use;
    bool hibernate;
};

struct fixture {
    struct pool *pool;
    struct pool_config config;
    uint64_t now_ns;
    struct fixture_hold hold;
    bool fail_store;
    bool fail_create;
    enum pool_verdict verdict;
    const char *life;  /* with that: which start of the box has answered; NULL: none */
    enum pool_use use; /* the answer of agents */
    uint64_t used_ns;  /* and since when */
    bool is_frozen;    /* what the last POOL_FX_FREEZE said */
    uint64_t req;
    struct pool_fx held[FIXTURE_FX_MAX];
    size_t held_count;
    struct pool_fx replies[FIXTURE_FX_MAX]; /* by request */
    bool has_reply[FIXTURE_FX_MAX];
    unsigned facts[POOL_FACT_COUNT];
    unsigned effects[POOL_FX_COUNT];
    unsigned writes[POOL_WRITE_COUNT];
    struct pool_event queue[FIXTURE_FX_MAX];
    size_t queue_len;
};

extern struct fixture fixture; /* of the test that runs */

/* For cmocka: a fixture that has not been started, and its end. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* One profile, max_boxes 8, nothing kept warm, everything else generous; change config, then start. */
void fixture_init(struct fixture *r);
void fixture_start(struct fixture *r);
void fixture_stop(struct fixture *r);
void fixture_send(struct fixture *r, const struct pool_event *ev);
void fixture_advance(struct fixture *r, uint64_t by_ns); /* with every wake on the way */

/* Requests return their number. `who` is the thread and, with an "s-" before it, the id. */
uint64_t fixture_acquire(struct fixture *r, const char *user, const char *who, uint64_t wait_ns);
uint64_t fixture_acquire_with(struct fixture *r, const char *user, const char *who,
                              uint64_t wait_ns, const struct pool_acquire *more);
uint64_t fixture_on(struct fixture *r, enum pool_event_kind kind, const char *who,
                    uint64_t generation, bool want_destroy);
void fixture_abandon(struct fixture *r, uint64_t req);

/* -1000: no reply yet. */
int fixture_code(const struct fixture *r, uint64_t req);
const struct pool_fx *fixture_reply(const struct fixture *r, uint64_t req);
const struct pool_box *fixture_box(const struct fixture *r, const char *who);
unsigned fixture_count(const struct fixture *r, enum pool_state state);
enum pool_state fixture_state(const struct fixture *r, uint64_t id);

/* A row of a former run, and what a listing shows of a box: of the thread `who` (NULL: nobody's), generation 3. */
struct pool_box fixture_row(uint64_t id, enum pool_state state, const char *who);
struct pool_seen fixture_seen(uint64_t id, const char *who);

/* Answers the oldest held effect of a kind; false when there is none. */
bool fixture_answer(struct fixture *r, enum pool_fx_kind kind, bool is_ok);
void fixture_answer_all(struct fixture *r, enum pool_fx_kind kind, bool is_ok);
const struct pool_fx *fixture_held(const struct fixture *r, enum pool_fx_kind kind);
void fixture_list(struct fixture *r, bool is_clean, const struct pool_seen *seen, size_t count);
void fixture_store(struct fixture *r, bool is_up);
void fixture_mode(struct fixture *r, enum pool_mode mode, bool want_parked_gone);
void fixture_died(struct fixture *r, struct box_id id);

#endif
