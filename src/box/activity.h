/* activity.h - is anything at work in a box? Its agent is asked. */
#ifndef BOX_ACTIVITY_H
#define BOX_ACTIVITY_H

#include "box/address.h"
#include "loop/httpc.h"

struct box_activity {
    struct httpc_request request; /* its op is what is waited for, and cancelled */
    char url[BOX_URL_MAX + 32];
    char authorization[BOX_TOKEN_MAX + 32];
    const char *headers[2];
};

enum box_use {
    BOX_USE_UNKNOWN, /* the question itself failed */
    BOX_USE_NONE,
    BOX_USE_BUSY,
    BOX_USE_CANNOT, /* no agent of ours, or one that is too old to be asked */
};

/* On a zeroed object, which lives until on_done(). */
void box_activity_start(struct httpc *http, struct box_activity *a, const char *url,
                        const char *token, uint64_t deadline_ns, void (*on_done)(struct op *));
/* In on_done(). *ret_idle_ms gets how long nothing has been at work. */
enum box_use box_activity_result(const struct box_activity *a, uint64_t *ret_idle_ms);
void box_activity_fini(struct box_activity *a);

#endif
