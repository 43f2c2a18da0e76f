/* pulse.h - do blank boxes still answer? */
#ifndef POOL_PULSE_H
#define POOL_PULSE_H

#include "pool/pool.h"

struct slot;

enum pulse {
    PULSE_FRESH,  /* it has answered a short while ago */
    PULSE_ASKED,  /* check it now, and take it off the list of boxes that can be leased */
    PULSE_ENOUGH, /* as many as are needed are being checked */
};

void box_set_mute(struct pool *p, struct slot *s, bool is_mute, unsigned unanswered);
void pulse_begin(struct pool *p, struct slot *s); /* it becomes blank */
uint64_t pulse_due(const struct pool *p, const struct slot *s);
void pulse_ask(struct pool *p, struct slot *s);
enum pulse pulse_feel(struct pool *p, struct slot *s); /* a caller needs it */
void pulse_answered(struct pool *p, struct slot *s, bool is_ok, const char *life);

#endif
