/* reclaim.h - boxes that stand still and that nobody is expected to need soon: their memory is given back to the machine, by
 * sandpool-helper, few at once. Nobody waits for it, and where it fails nothing is wrong. The helper itself ends when its box does
 * not stand still any more. */
#ifndef BACKEND_RECLAIM_H
#define BACKEND_RECLAIM_H

#include "backend/backend.h"
#include "backend/closing.h"
#include "base/buf.h"
#include "base/map.h"
#include "loop/loop.h"

struct reclaims {
    struct loop *loop;
    struct closing *closing;
    const char *helper; /* outlives this; "": nothing is done */
    struct map by_box;
    struct list waiting;
    unsigned running;
};

/* The caller has filled the first part of a zeroed object. */
void reclaims_open(struct reclaims *r);
/* When the backend begins to close; those that run are among the closing's inner operations. */
void reclaims_close(struct reclaims *r);
/* After that. */
void reclaims_fini(struct reclaims *r);

/* `plan` is that of the verb `reclaim`; taken. */
void reclaims_add(struct reclaims *r, uint64_t box_id, struct buf *plan);

/* For `sandpool doctor`: what the kernel offers. */
void reclaims_report(struct backend_exam *r);

#endif
