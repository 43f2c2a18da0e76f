/* usage_rows.h - rows of boxes with owners and a price, at times after T0. */
#ifndef TEST_STORE_USAGE_ROWS_H
#define TEST_STORE_USAGE_ROWS_H

#include "fixture.h"

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

#endif
