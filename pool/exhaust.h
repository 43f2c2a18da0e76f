/* exhaust.h - whether all boxes are in use, and somebody wants one. */
#ifndef POOL_EXHAUST_H
#define POOL_EXHAUST_H

#include "pool/pool.h"

struct exhaust {
    bool is_on;         /* an event has said so */
    bool was_refused;   /* somebody was refused for it in this step */
    uint64_t relief_ns; /* on: since when it is over; 0: it is not */
    char text[POOL_REASON_MAX + 1];
};

void exhaust_update(struct pool *p);      /* at the end of a step */
const char *exhaust_text(struct pool *p); /* what the boxes are doing; the same for all of a step */

#endif
