/* usage_rows.h - rows of boxes with owners and a price, at times after T0. */
#ifndef TEST_STORE_USAGE_ROWS_H
#define TEST_STORE_USAGE_ROWS_H

#include "fixture.h"
#include "store/usage.h"

#define HOUR_MS 3600000ULL
#define T0 FIXTURE_WALL_MS

/* 3600 millionths of a EUR an hour: one for each second, and 7 for the start. */
extern const struct store_price dear;

void open_metered(struct fixture *f);
void write_at(struct fixture *f, uint64_t at_ms, struct put p, const char *state, const char *user);
/* The public id is the user, the generation is the box. */
void lease(struct fixture *f, uint64_t at_ms, uint64_t box, const char *user);
void park(struct fixture *f, uint64_t at_ms, uint64_t box, const char *user);
void end(struct fixture *f, uint64_t at_ms, uint64_t box, const char *user);

/* All steps. */
void usage_ask(struct fixture *f, struct store_usage *u);
const struct store_sum *usage_sum_of(struct store_usage *u, const char *user);
/* What this user has used from `since` to `until`, after T0; 0: from the beginning, until now. */
void expect_usage(struct fixture *f, uint64_t since, uint64_t until, const char *user,
                  uint64_t leased, uint64_t parked, uint64_t paused, uint64_t micros);
size_t count_intervals(struct fixture *f);
/* The closed database becomes one of version 14. */
void before_prices_of_use(struct fixture *f);

#endif
