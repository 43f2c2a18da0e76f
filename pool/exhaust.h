/* exhaust.h - whether all boxes are in use while a caller wants one. */
#ifndef POOL_EXHAUST_H
#define POOL_EXHAUST_H

#include "pool/pool.h"

struct exhaust {
    bool is_on;         /* the event was emitted */
    bool was_refused;   /* a caller was refused for it in this step */
    uint64_t relief_ns; /* on: since when it is over; 0: it is not */
    char text[POOL_REASON_MAX + 1];
};

void exhaust_update(struct pool *p);      /* at the end of a step */
const char *exhaust_text(struct pool *p); /* the states of all boxes as text; the same for all of a
                                           * step */

#endif
