/* emit.h - the queue of effects. */
#ifndef POOL_EMIT_H
#define POOL_EMIT_H

#include "pool/pool.h"

struct slot;
struct waiter;

/* An effect in the queue: small, because a listing can make several per box. The data of its box is
 * filled in when it is taken. */
struct fx_rec {
    unsigned char kind;
    unsigned char what; /* enum pool_write, enum pool_fact or enum pool_source */
    unsigned char end;
    unsigned char state; /* of the box */
    bool has_owner;
    unsigned backend; /* DISCOVER */
    int code;
    struct slot *slot;
    struct waiter *waiter; /* DISCOVER, AGAIN */
    uint64_t a;            /* epoch, or the request */
    uint64_t b;            /* deadline, write number, or retry_after */
    uint64_t c;            /* queued_ns */
    const char *reason;    /* as in a refusal */
};

void emit_backend(struct pool *p, enum pool_fx_kind kind, struct slot *s, uint64_t deadline_ns);
void emit_slotless_destroy(struct pool *p, const struct pool_event *created);
void emit_discover(struct pool *p, struct waiter *w, uint64_t deadline_ns);
void emit_again(struct pool *p, struct waiter *w);
void emit_event(struct pool *p, enum pool_fact fact, struct slot *s, const char *reason);
uint64_t emit_store(struct pool *p, enum pool_write what, struct slot *s);
void emit_reply_ok(struct pool *p, struct req_id req, struct slot *s, enum pool_source source,
                   uint64_t queued_ns);
struct refusal {
    int code;
    const char *reason; /* static, a profile's or the pool's */
    uint64_t retry_after_ns;
    enum pool_end lost;
};
void emit_refusal(struct pool *p, struct req_id req, const struct refusal *r, uint64_t queued_ns);

#endif
