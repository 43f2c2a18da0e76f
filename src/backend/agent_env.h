/* agent_env.h - variables for a box that runs: its agent takes them for every process from now on. What
 * the backends with late binding share. */
#ifndef BACKEND_AGENT_ENV_H
#define BACKEND_AGENT_ENV_H

#include "backend/backend.h"

struct agent_env {
    struct httpc_request request; /* its op is what is waited for, and cancelled */
    struct buf body;
    char url[BACKEND_URL_MAX + 32];
    char authorization[BACKEND_TOKEN_MAX + 32];
    const char *headers[3];
};

/* On a zeroed or finished object. In on_done() agent_env_result() returns the result. */
void agent_env_start(struct httpc *http, struct agent_env *e, const struct backend_box *box,
                     const struct backend_extras *extras, uint64_t deadline_ns,
                     void (*on_done)(struct op *));
/* SP_UNSUPPORTED: the box has no agent of ours. */
MUST_CHECK int agent_env_result(const struct agent_env *e, struct err *err);
void agent_env_fini(struct agent_env *e);

#endif
