/* usage.h - metered time, read back: added up by owner or profile, or interval by interval. A step looks at a
 * bounded number of rows, so that no commit waits long for it; asked again until it `is_end`.
 *
 * An interval is time in which a box had an owner and its row did not change in what counts: owner, profile, state,
 * price. Intervals of one box follow each other without a gap and do not overlap. */
#ifndef STORE_USAGE_H
#define STORE_USAGE_H

#include "base/list.h"
#include "base/map.h"
#include "store/store.h"

/* What sums are kept apart by: bits. Amounts of different currencies always are. */
enum {
    STORE_BY_USER = 1,
    STORE_BY_THREAD = 2,
    STORE_BY_SANDBOX = 4,
    STORE_BY_PROFILE = 8,
    STORE_BY_PRINCIPAL = 16
};

struct store_interval {
    uint64_t box;
    uint64_t generation;
    uint64_t principal;
    enum store_meter state;
    uint64_t began_ms;
    uint64_t ended_ms; /* 0: it is open */
    uint64_t per_hour;
    uint64_t per_start; /* of the first interval of a binding, else 0 */
    uint64_t per_use[STORE_RATE_COUNT];
    uint64_t folded;    /* 0; or it is the sum of so many, all with this price, */
    uint64_t folded_ms; /* and this is their length */
    const char *sandbox_id;
    const char *user;
    const char *thread;
    const char *profile;
    const char *currency;
    struct store_counts counts; /* by when it ended, or */
    uint64_t sampled_ms;        /* of an open one: by then */
};

struct store_sum {
    struct map_node node;
    struct list_node link;
    char *sandbox_id; /* texts by which sums are not kept apart: "" */
    char *user;
    char *thread;
    char *profile;
    char *currency;
    uint64_t principal;
    uint64_t ms[STORE_METER_COUNT];
    unsigned __int128 nominal;  /* cost, not yet divided */
    struct store_counts counts; /* a number is known if it is of one interval */
};

/* Of which row of `boxes` the open interval was counted, and which rows of `usage` there were by then: one that was
 * closed later must not be counted again. */
struct store_mark {
    int64_t box;
    uint64_t last_id;
};

struct store_usage {
    /* Texts: NULL is any. */
    const char *user;
    const char *thread;
    const char *sandbox_id;
    const char *profile;
    uint64_t principal;
    bool has_principal;
    uint64_t since_ms;
    uint64_t until_ms; /* not included; not after the first step */
    bool want_rows;    /* intervals, not sums */
    unsigned by;
    unsigned scan_max; /* rows of a step */
    unsigned max;      /* sums, or intervals */

    /* Where it goes on; of intervals also where a page begins: first open ones, then closed. */
    bool is_past_open;
    bool has_place;
    int64_t place;

    bool
        is_stepped; /* by this submit: a batch may be tried twice. The caller sets it to false before each */
    bool is_begun;     /* the store's own */
    uint64_t asked_ms; /* until_ms as it was asked for */
    uint64_t folds;
    unsigned restarts;
    struct store_mark *marks;
    size_t mark_count;
    size_t mark_cap;

    bool is_end;
    bool is_unsteady; /* sums: rows were moved again and again meanwhile, and it was given up */
    bool is_cut; /* more sums than `max`, or the page is full: it ends before the end of the rows */
    struct map sums;
    struct list sum_list;
    struct store_interval *rows;
    size_t row_count;
};

void store_usage_init(struct store_usage *u);
void store_usage_fini(struct store_usage *u);

/* In millionths of the currency, rounded half up. */
uint64_t store_usage_cost(unsigned __int128 nominal);
/* How much of an interval is in the range, and what that costs. Of a sum that is in it in part, as much as is in proportion:
 * ranges that follow each other always have the whole of it. */
uint64_t store_usage_ms(const struct store_interval *i, uint64_t since_ms, uint64_t until_ms);
unsigned __int128 store_usage_part(const struct store_interval *i, uint64_t since_ms,
                                   uint64_t until_ms);
/* What an interval has used in a range: of one that is in it in part, as much as is in proportion; ranges that follow each
 * other have the whole of it. */
void store_usage_counts(const struct store_interval *i, uint64_t since_ms, uint64_t until_ms,
                        struct store_counts *ret);
/* What an interval of this length costs, without what was used in it, and what that costs: for adding up. */
unsigned __int128 store_usage_nominal(uint64_t per_hour, uint64_t ms, uint64_t per_start);
unsigned __int128 store_usage_of_counts(const uint64_t per_use[STORE_RATE_COUNT],
                                        const struct store_counts *counts);

#endif
