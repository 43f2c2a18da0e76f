/* host.h - the client of sandpool-sim: what its files share. */
#ifndef BACKENDS_SIM_HOST_H
#define BACKENDS_SIM_HOST_H

#include "backend/backend.h"
#include "base/json.h"

/* The long poll that learns of deaths. */
struct sim_watch {
    struct httpc_request request;
    struct rt_timer pause;
    uint64_t backoff_ns;
    uint64_t since;
    char epoch[17]; /* "" until the first answer */
    char url[128];
    bool is_asking;
    bool is_lost; /* the last try failed: deaths may be missed */
};

struct sim_host {
    struct backend base;
    struct rt *rt;
    struct httpc *http;
    const struct backend_events *events;
    char instance[BACKEND_LABEL_MAX + 1];
    char socket[CONFIG_PATH_MAX + 1];
    struct list ops;
    struct sim_watch watch;
    bool is_closing;
    struct rt_task closed;
    void (*on_closed)(void *ctx);
    void *ctx;
};

int sim_host_open(const struct backend_env *env, const struct config_profile *profile,
                  struct backend **ret, struct err *err);
/* Ends the closing when nothing is under way any more. */
void sim_host_settle(struct sim_host *h);

/* --- one request to sandpool-sim on behalf of an operation (call.c) --- */
struct sim_call {
    struct httpc_request http;
    struct sim_host *host;
    struct op *op; /* of the caller */
    void (*on_answer)(struct sim_call *c);
    struct buf url;
    struct buf body;
};

/* Begins `op` and gives back the call, whose url (from the path on) and body are to be filled. The
 * operation's on_cancel() is to call sim_call_cancel(). */
struct sim_call *sim_call_new(struct sim_host *h, struct op *op, uint64_t deadline_ns,
                              void (*on_cancel)(struct op *), void (*on_done)(struct op *),
                              void (*on_answer)(struct sim_call *));
/* Also for the next page, from inside on_answer(). */
void sim_call_send(struct sim_call *c, const char *method);
/* The answer: SP_OK when its status is `want`; *ret_doc (NULL for an empty body) is the caller's. */
MUST_CHECK int sim_call_read(struct sim_call *c, int want, struct json_doc **ret_doc,
                             struct err *err);
void sim_call_cancel(struct sim_call *c);
/* The path of a request about one box; host.c, as the next. */
void sim_call_box(struct sim_call *c, uint64_t box_id, const char *tail);
/* A box of an answer. */
MUST_CHECK int sim_call_get(const struct json *obj, struct backend_box *ret, struct err *err);
/* Finishes the operation and frees the call. */
void sim_call_end(struct sim_call *c, int result, const struct err *err);

/* --- deaths (watch.c) --- */
void sim_watch_start(struct sim_host *h);
void sim_watch_stop(struct sim_host *h);

#endif
