/* bind.h - which id belongs to which box. */
#ifndef POOL_BIND_H
#define POOL_BIND_H

#include "pool/pool.h"

struct slot;

struct slot *bind_find(const struct pool *p, const char *sandbox_id);
void bind_owner(struct pool *p, struct slot *s, const struct pool_acquire *a);
void bind_link(struct pool *p, struct slot *s);
void bind_cut(struct pool *p, struct slot *s); /* the id is free again, the box keeps its text */
/* The same of a box that was never made: what is bound next is newer than its row, which may outlive this process. */
void bind_give_up(struct pool *p, struct slot *s);
void bind_clear(struct pool *p, struct slot *s);
void bind_claim(struct pool *p, struct slot *s); /* waiters of the id now wait for the found box */

#endif
