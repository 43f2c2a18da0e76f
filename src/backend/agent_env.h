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
/* Asks for what was set so: on a zeroed or finished object, and agent_env_take() in on_done(). */
void agent_env_ask(struct httpc *http, struct agent_env *e, const struct backend_box *box,
                   uint64_t deadline_ns, void (*on_done)(struct op *));
/* *ret is from malloc, or NULL: nothing was set, or the box has no agent that could say so. */
MUST_CHECK int agent_env_take(const struct agent_env *e, struct backend_extras **ret,
                              struct err *err);
/* A JSON object of variables as extras, and back. SP_INVALID_FIELD: it is none, or more than one box may have. */
MUST_CHECK int agent_env_read(const struct json *envs, struct backend_extras **ret,
                              struct err *err);
void agent_env_put(const struct backend_extras *x, struct json_out *o, const char *key);
/* SP_UNSUPPORTED: the box has no agent of ours. */
MUST_CHECK int agent_env_result(const struct agent_env *e, struct err *err);
void agent_env_fini(struct agent_env *e);

#endif
