/* rig.h - a pool with a simple world around it: everything succeeds at once unless the test
 * requests otherwise. Effects are kept, so that a test can hold one back and answer it later. */
#ifndef TEST_POOL_RIG_H
#define TEST_POOL_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "pool/pool.h"
#include "sandpool/errors.h"

#define RIG_FX_MAX 512

struct rig_hold { /* true: effects of this kind wait for the test */
    bool store;
    bool create;
    bool probe;
    bool check;
    bool discover;
    bool destroy;
    bool use;
    bool hibernate;
};

struct rig {
    struct pool *pool;
    struct pool_config config;
    uint64_t now_ns;
    struct rig_hold hold;
    bool fail_store;
    bool fail_create;
    enum pool_verdict verdict;
    enum pool_use use; /* the answer of agents */
    uint64_t used_ns;  /* and since when */
    bool is_frozen;    /* what the last POOL_FX_FREEZE said */
    uint64_t req;
    struct pool_fx held[RIG_FX_MAX];
    size_t held_count;
    struct pool_fx replies[RIG_FX_MAX]; /* by request */
    bool has_reply[RIG_FX_MAX];
    unsigned facts[POOL_FACT_COUNT];
    unsigned effects[POOL_FX_COUNT];
    unsigned writes[POOL_WRITE_COUNT];
    struct pool_event queue[RIG_FX_MAX];
    size_t queue_len;
};

extern struct rig rig; /* of the test that runs */

/* For cmocka: a rig that has not been started, and its end. */
int rig_setup(void **state);
int rig_teardown(void **state);

/* One profile, max_boxes 8, nothing kept warm, everything else generous; change config, then start. */
void rig_init(struct rig *r);
void rig_start(struct rig *r);
void rig_stop(struct rig *r);
void rig_send(struct rig *r, const struct pool_event *ev);
void rig_advance(struct rig *r, uint64_t by_ns); /* with every wake on the way */

/* Requests return their number. `who` is the thread and, with an "s-" before it, the id. */
uint64_t rig_acquire(struct rig *r, const char *user, const char *who, uint64_t wait_ns);
uint64_t rig_acquire_with(struct rig *r, const char *user, const char *who, uint64_t wait_ns,
                          const struct pool_acquire *more);
uint64_t rig_on(struct rig *r, enum pool_event_kind kind, const char *who, uint64_t generation,
                bool want_destroy);
void rig_abandon(struct rig *r, uint64_t req);

/* -1000: no reply yet. */
int rig_code(const struct rig *r, uint64_t req);
const struct pool_fx *rig_reply(const struct rig *r, uint64_t req);
const struct pool_box *rig_box(const struct rig *r, const char *who);
unsigned rig_count(const struct rig *r, enum pool_state state);
enum pool_state rig_state(const struct rig *r, uint64_t id);

/* A row of a former run, and what a listing shows of a box: of the thread `who` (NULL: nobody's), generation 3. */
struct pool_box rig_row(uint64_t id, enum pool_state state, const char *who);
struct pool_seen rig_seen(uint64_t id, const char *who);

/* Answers the oldest held effect of a kind; false when there is none. */
bool rig_answer(struct rig *r, enum pool_fx_kind kind, bool is_ok);
void rig_answer_all(struct rig *r, enum pool_fx_kind kind, bool is_ok);
const struct pool_fx *rig_held(const struct rig *r, enum pool_fx_kind kind);
void rig_list(struct rig *r, bool is_clean, const struct pool_seen *seen, size_t count);
void rig_store(struct rig *r, bool is_up);
void rig_mode(struct rig *r, enum pool_mode mode, bool want_parked_gone);
void rig_died(struct rig *r, struct box_id id);

#endif
