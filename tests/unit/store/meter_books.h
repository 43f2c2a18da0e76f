/* meter_books.h - the script of changes that test_store_meter plays, and exact bookkeeping of them. */
#ifndef TEST_STORE_METER_BOOKS_H
#define TEST_STORE_METER_BOOKS_H

#include "base/rand.h"
#include "fixture.h"
#include "store/usage.h"

#define BOXES 64
#define USERS 6

extern const char *const meter_users[USERS];

enum now { GONE, BLANK, LEASED, PARKED, PAUSED, DELETING, SAMPLED };

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
    uint64_t true_ms;           /* 0: at_ms */
    struct store_counts counts; /* SAMPLED: of them the bytes to the network are the number */
};

/* What samples of a box said. */
struct tally {
    bool has_binding; /* these two */
    unsigned user;
    bool is_owned;
    uint64_t generation;
    uint64_t at_ms;
    struct store_counts seen;
    struct store_counts open;
};

/* The books of one box. */
struct account {
    bool is_open;
    uint64_t number; /* of the last change, to find the place after a kill */
    uint64_t sample; /* likewise of the last sample */
    bool is_there;
    enum now now;
    unsigned user;
    unsigned price;
    uint64_t generation;
    uint64_t since_ms;
    bool is_start_due; /* the interval has the price of the start */
    struct tally tally;
    /* What the row says of its owner: closed intervals. */
    uint64_t used_ms[STORE_METER_COUNT];
    unsigned __int128 used_nominal;
};

struct books {
    struct account accounts[BOXES];
    uint64_t ms[USERS][STORE_METER_COUNT];
    struct store_counts counts[USERS];
    unsigned __int128 nominal[USERS];
};

struct script {
    struct rand rand;
    uint64_t next;
    uint64_t at_ms;
};

void script_next(struct script *s, struct change *c);
/* What the store gets. */
void change_fill(struct change *c);

void books_apply(struct books *b, const struct change *c);
/* As if all that is open ended at this time. */
void books_close(struct books *b, uint64_t at_ms);

#endif
