/* trace.h - an event and an effect of the pool as a line of text: for walks that are replayed. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "pool/pool.h"

#define TRACE_MAX 512

void trace_event(char dst[TRACE_MAX], const struct pool_event *ev);
void trace_effect(char dst[TRACE_MAX], const struct pool_fx *fx);

/* Why a lease ends with this fact; POOL_END_NONE: it does not. That of a box that is to become a snapshot ends before the
 * box does. */
enum pool_end trace_end(const struct pool_fx *fx);

#endif
