/* pulse.h - do blank boxes still answer? */
#ifndef POOL_PULSE_H
#define POOL_PULSE_H

#include "pool/internal.h"

void box_set_mute(struct pool *p, struct slot *s, bool is_mute, unsigned unanswered);
void pulse_begin(struct pool *p, struct slot *s); /* it becomes blank */
uint64_t pulse_due(const struct pool *p, const struct slot *s);
void pulse_ask(struct pool *p, struct slot *s);
bool pulse_is_fresh(struct pool *p, struct slot *s);
void pulse_answered(struct pool *p, struct slot *s, bool is_ok);

#endif
