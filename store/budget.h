/* budget.h - what users have spent of their budgets. Spending is a line: what was spent until a moment, and the price
 * of all open intervals together from then on. The line of a user is a row that the same commit changes which opens or
 * closes an interval; what is committed is in memory as well, so that the loop asks without waiting and without adding up.
 *
 * Amounts are millionths of the one currency that budgets are in. Intervals in other currencies do not count. */
#ifndef STORE_BUDGET_H
#define STORE_BUDGET_H

#include "store/store.h"

#define STORE_BUDGET_MAX 1000000000000000ULL /* a milliard of the currency */
#define STORE_BUDGETS_MAX \
    100000 /* users; of more those who hold nothing go, who spent least first */

struct store_budget {
    bool has_amount; /* of its own; else the default counts */
    uint64_t amount;
    uint64_t credit; /* on top of it, in this period */
    uint64_t spent;  /* in this period, rounded down */
};

/* What a user has now; all 0 for one that is not known. On the loop. */
void store_get_budget(struct store *s, const char *user, struct store_budget *ret);
/* When the period ends, by the wall clock; 0: never. On the loop. */
uint64_t store_budget_ends(struct store *s);

struct store_budget_line {
    char *user;
    struct store_budget budget;
};

enum store_budget_deed {
    STORE_BUDGET_LIST,    /* users after `user`, by name */
    STORE_BUDGET_SET,     /* its own amount */
    STORE_BUDGET_DEFAULT, /* no own amount any more */
    STORE_BUDGET_CREDIT   /* `amount` more, in this period */
};

struct store_budget_call {
    enum store_budget_deed deed;
    const char *user;
    uint64_t amount;
    unsigned max;

    struct store_budget_line *lines; /* results of a list, freed by store_budget_call_fini() */
    unsigned count;
    bool has_more;
    bool is_full; /* too many users have budgets of their own: nothing was changed */
};
void store_budget_call_fini(struct store_budget_call *c);

#endif
