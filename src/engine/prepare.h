/* prepare.h - setup and warm_up of a new box. */
#ifndef ENGINE_PREPARE_H
#define ENGINE_PREPARE_H

#include "box/command.h"
#include "engine/internal.h"

struct prepare {
    struct box_command command; /* cancelled with the probes of the engine */
    struct engine *engine;
    struct engine_config_ref *config;
    const struct config_profile *profile;
    struct pool_box box;
    unsigned step;
    void (*on_done)(struct prepare *p, const struct err *err);
};

bool prepare_is_needed(struct engine *e, const struct pool_box *box);
/* on_done() comes once; err->code is SP_OK, or the message says which command failed, how, and what it wrote last. */
void prepare_start(struct engine *e, struct prepare *p, const struct pool_box *box,
                   void (*on_done)(struct prepare *p, const struct err *err));

#endif
