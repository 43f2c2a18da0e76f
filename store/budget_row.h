/* budget_row.h - the row of a user, and the rows that the loop sees: what the files of budgets share. */
#ifndef STORE_BUDGET_ROW_H
#define STORE_BUDGET_ROW_H

#include "store/internal.h"

typedef unsigned __int128 budget_sum; /* in the parts of usage.h */

struct budget_row {
    bool has_amount;
    uint64_t amount;
    uint64_t credit;
    uint64_t period;   /* which the rest is of; 0: all time */
    uint64_t since_ms; /* time before it does not count */
    uint64_t at_ms;
    budget_sum per_hour; /* of all open intervals */
    budget_sum spent;    /* until at_ms */
};

/* budget.c */
void budget_read_row(sqlite3_stmt *q, struct budget_row *ret);
MUST_CHECK int budget_save_row(struct db *db, const char *user, const struct budget_row *r);

/* budget_book.c: changed by the batch under way; all 0 when there is none. */
void budget_note(struct budgets *b, const char *user, const struct budget_row *r);
void budget_find(struct budgets *b, const char *user, struct budget_row *ret);
/* Users that have rows, before the batch under way. On the writer's thread. */
size_t budget_count(const struct budgets *b);

#endif
