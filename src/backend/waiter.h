/* waiter.h - somebody who goes on when something has changed: a box was made or removed, a turn is free. */
#ifndef BACKEND_WAITER_H
#define BACKEND_WAITER_H

#include "base/list.h"

struct waiter {
    struct list_node link;
    void (*resume)(struct waiter *w); /* it is on no list any more */
};

/* Until the list is empty: each is taken off before it is resumed, so that others may leave the list meanwhile. Whoever
 * may wait again has to wait on another list. */
void waiter_resume_all(struct list *waiters);

#endif
