/* writes.h - rows that are written, and the answers of the store. */
#ifndef POOL_WRITES_H
#define POOL_WRITES_H

#include "base/compiler.h"
#include "pool/pool.h"

#define POOL_REWRITE_NS (1 * NS_PER_S) /* a row that could not be written, store up */
#define POOL_FLUSH_MAX 384             /* rows without a waiting caller, in the store's queue */

void writes_answered(struct pool *p, const struct pool_event *ev, bool is_ok);
void writes_store_state(struct pool *p, bool is_up);
/* False while a row with its deadline as it is would overwrite what a write under way brings. */
bool writes_is_settled(const struct slot *s);
uint64_t writes_flush(struct pool *p); /* returns when to try the rest */

#endif
