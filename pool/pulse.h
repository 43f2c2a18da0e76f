/* pulse.h - do blank boxes still answer? */
#ifndef POOL_PULSE_H
#define POOL_PULSE_H

#include "pool/pool.h"

struct slot;

enum pulse {
    PULSE_FRESH,  /* it has answered a moment ago */
    PULSE_ASKED,  /* it is asked now, and off the list of those that are given out */
    PULSE_ENOUGH, /* as many as are wanted are being asked */
};

void box_set_mute(struct pool *p, struct slot *s, bool is_mute, unsigned unanswered);
void pulse_begin(struct pool *p, struct slot *s); /* it becomes blank */
uint64_t pulse_due(const struct pool *p, const struct slot *s);
void pulse_ask(struct pool *p, struct slot *s);
enum pulse pulse_feel(struct pool *p, struct slot *s); /* somebody wants it */
void pulse_answered(struct pool *p, struct slot *s, bool is_ok, const char *life);

#endif
