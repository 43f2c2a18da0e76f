/* internal.h - what the files of the API share. */
#ifndef API_INTERNAL_H
#define API_INTERNAL_H

#include "base/json.h"
#include "box/address.h"
#include "dialects/native/api.h"
#include "engine/snapshots.h"
#include "front/principal.h"

/* Characters that names may have besides letters and digits. */
#define API_USER_EXTRA "_.@-"
#define API_THREAD_EXTRA "_.-"

enum { API_TTL_MAX_S = 30 * 24 * 3600 }; /* longest lease, and idle time, a caller may ask for */

/* Who calls: see front/principal.h. */
struct api_caller {
    uint64_t principal;
    bool is_operator; /* for this call: a token of scope `read` sees what operators see */
    struct front_caller who;
    char base[BOX_ADDRESS_MAX]; /* on TCP: the URL at which it reaches us; "" on the Unix socket */
};

static inline struct api *api_of(const struct http_exchange *ex)
{
    return http_server_ctx(ex);
}

/* access.c: false if a TCP caller has no valid token. */
bool api_identify(struct http_exchange *ex, struct api_caller *ret);
/* access.c: what went wrong, as one member (NULL: null); paths of the host are shown to operators only. */
void api_put_reason(struct json_out *o, const char *key, const char *text, bool is_operator);
/* access.c: whether a token of this caller, if it is bound to something, may have to do with it. */
bool api_covers(const struct api_caller *caller, const char *user, const char *profile,
                const char *sandbox_id);
bool api_covers_box(const struct api *api, const struct api_caller *caller,
                    const struct pool_box *box);
/* access.c: whether it may be shown what opens the box. Its owner's name is not enough: tokens that only look have it, too. */
bool api_may_use(const struct api_caller *caller, const struct pool_box *box);

/* codec.c */
/* The body as a JSON object; an absent body is {}. NULL: the error has been answered. */
struct json_doc *api_parse_body(struct http_exchange *ex);
/* Members of one box, into the object that is open. Its address is shown while its lease is committed, its
 * token then to its owner only. */
void api_put_box(struct json_out *o, struct api *api, const struct api_caller *caller,
                 const struct pool_box *box);
/* The state as shown to callers; intermediate steps are internal to the daemon. */
const char *api_state_name(enum pool_state state);
void api_put_time(struct json_out *o, const char *key, struct api *api, uint64_t at_ns);
/* Answers a pool refusal. */
void api_reply_failure(struct http_exchange *ex, const struct pool_fx *fx);
/* The same as member "error" of the object that is open. */
void api_put_failure(struct json_out *o, const struct pool_fx *fx, bool is_operator);
/* A sandbox_id, "box:" and a box id, or "thread:" and user/thread, which stands for the id computed
 * from them. */
bool api_parse_id(const char *id, char *ret_sandbox_id, struct box_id *ret_box);
/* The id of the path. Answers and returns false if it is not valid. */
bool api_path_id(struct http_exchange *ex, char *ret_sandbox_id, struct box_id *ret_box);
/* As a caller writes it: a uid, or 16 hex digits. */
bool api_parse_principal(const char *text, uint64_t *ret);
/* SHA-256 of "user:thread", first 16 hex digits. */
/* The id that this caller's acquire with this request id waits for (acquire.c). */
bool api_find_request(const struct api *api, const char *request_id, uint64_t principal,
                      char ret[POOL_ID_MAX + 1]);
void api_sandbox_id(const char *user, const char *thread, char ret[POOL_ID_MAX + 1]);

/* acquire.c: members of the answer to an acquire, into the object that is open. */
void api_put_lease(struct json_out *o, struct api *api, const struct api_caller *caller,
                   const struct pool_fx *fx, uint64_t started_ns);

/* From the body of an acquire; NULL: absent. */
struct api_members {
    const struct json *envs;   /* an object */
    const struct json *mounts; /* a list */
    const struct json *limits; /* an object */
};
/* What the profile of an acquire has to have. */
struct api_need {
    const char *network;          /* NULL: any */
    const struct json *labels;    /* an object of texts, or NULL */
    struct backend_extras extras; /* its limits; of envs and mounts only how many */
};
/* choose.c: the profile of an acquire, whose sandbox_id is set, by its name (NULL: default). */
MUST_CHECK int api_set_profile(struct api *api, const struct api_caller *caller, const char *name,
                               const struct api_need *n, struct pool_acquire *ret, struct err *err);
/* The pool profile that `auto` stands for now. */
MUST_CHECK int api_choose(struct api *api, const struct api_need *n, unsigned *ret,
                          struct err *err);
/* extras.c: "limits" of an acquire. */
MUST_CHECK int api_get_limits(const struct json *body, struct backend_extras *ret, struct err *err);
/* extras.c: *ret is NULL if none are requested, else the caller frees it. */
MUST_CHECK int api_decode_extras(struct api *api, const struct api_caller *caller,
                                 const struct api_members *members, unsigned profile,
                                 struct backend_extras **ret, struct err *err);
/* Whether this caller could ask for them now, in the configuration as it is. */
MUST_CHECK int api_check_extras(struct api *api, const struct api_caller *caller,
                                const struct backend_extras *extras, unsigned profile,
                                struct err *err);

/* pass.c */
/* Sets `base` of a caller on TCP. */
void api_set_base(struct http_exchange *ex, struct api_caller *caller);
/* The URL of the box for this caller. */
void api_box_url(const struct api_caller *caller, const struct pool_box *box,
                 char ret[2 * BOX_ADDRESS_MAX]);
void api_pass(struct http_exchange *ex);
/* Whether the request could be made now. */
bool api_may_pass(struct http_exchange *ex);

/* calls.c: the same for a call to this box. */
bool api_may_call(struct http_exchange *ex, uint64_t box);
/* struct box_proxy_config.refuse_loss */
void api_refuse_loss(struct http_exchange *ex, int code, const char *reason);

/* calls.c: 410, with what ended it. */
void api_reply_lost(struct http_exchange *ex, enum pool_end end);
/* calls.c: the leased box of the path, this caller's or any for an operator. NULL: it has been answered. */
const struct pool_box *api_find_leased(struct http_exchange *ex, const struct api_caller *caller);

/* sandboxes.c: the box of this name. One whose lease has ended is found until it is gone; unless it ended by itself, which
 * its owner is to know. */
const struct pool_box *api_find_shown(const struct pool *pool, const char *sandbox_id);
/* There is none: lost, if it ended by itself, or none that this caller may know of. */
void api_reply_absent(struct http_exchange *ex, const struct api_caller *caller,
                      const char *sandbox_id);

/* network.c */
void api_network(struct http_exchange *ex);

/* pause.c: true: the box is paused, and `handle` is called again when it runs. */
MUST_CHECK bool api_wake(struct http_exchange *ex, const struct pool_box *box,
                         void (*handle)(struct http_exchange *ex));
void api_box_pause(struct http_exchange *ex);
void api_box_resume(struct http_exchange *ex);

/* hibernated.c: false when this caller has no such sandbox. */
MUST_CHECK bool api_reply_hibernated(struct http_exchange *ex, struct api *api,
                                     const struct api_caller *caller, const char *sandbox_id);
struct api_hibernated_filter {
    const struct api_caller *caller;
    const char *profile; /* NULL: any */
    const char *user;    /* "": any */
    const char *thread;
    uint64_t after; /* the last one that was shown */
    uint64_t left;  /* so many are shown at most */
};
/* True when there are more. */
MUST_CHECK bool api_list_hibernated(struct json_out *o, struct api *api,
                                    struct api_hibernated_filter *f);

/* snapshots.c: the id of a snapshot that this caller may use, from its text. */
MUST_CHECK int api_find_snapshot(struct api *api, const struct api_caller *caller, const char *id,
                                 const struct engine_snapshot **ret, struct err *err);
/* Answers why none could be made. */
void api_snapshot_refuse(struct http_exchange *ex, int code, const char *reason);
/* One that was made. */
void api_snapshot_reply(struct http_exchange *ex, const struct snapshot *s);
/* The one of the path; NULL: it has been answered. */
struct engine_snapshot *api_snapshot_of_path(struct http_exchange *ex);
void api_snapshot_export(struct http_exchange *ex);
void api_snapshot_import(struct http_exchange *ex);
void api_fork(struct http_exchange *ex);
void api_snapshot_create(struct http_exchange *ex);
void api_snapshot_list(struct http_exchange *ex);
void api_snapshot_get(struct http_exchange *ex);
void api_snapshot_delete(struct http_exchange *ex);

/* pool.c: the pool, into the object that is open. */
void api_put_pool(struct json_out *o, struct api *api, const struct api_caller *caller);
/* health.c: members "ready", "cause" and "reason" of a pool profile; whether it is ready. */
bool api_put_ready(struct json_out *o, struct api *api, unsigned profile, bool is_operator);
/* pool.c: how a pool profile is doing, into the object that is open. */
void api_put_profile_state(struct json_out *o, struct api *api, unsigned index, bool is_operator);

/* quote.c: an amount of money, as text and, in a second member, in millionths. */
void api_put_amount(struct json_out *o, const char *name, uint64_t micros);
/* quote.c: the member "price" of a profile; null: it has none. */
void api_put_price(struct json_out *o, const struct config_profile *c);

/* budgets.c: as api_reply_failure(), with the amounts of a budget that is used up. */
void api_reply_spent(struct http_exchange *ex, const struct pool_fx *fx,
                     const struct engine_call *call);

/* verdict.c: struct box_proxy_config.ask_loss and drop_loss, with the api as their ctx. */
void api_ask_loss(void *ctx, struct box_proxy_loss *loss);
void api_drop_loss(void *ctx, struct box_proxy_loss *loss);

/* handlers */
void api_call(struct http_exchange *ex);
void api_call_port(struct http_exchange *ex);
void api_acquire(struct http_exchange *ex);
void api_release(struct http_exchange *ex);
void api_renew(struct http_exchange *ex);
void api_destroy(struct http_exchange *ex);
void api_get(struct http_exchange *ex);
void api_list(struct http_exchange *ex);
void api_pool(struct http_exchange *ex);
void api_pool_live(struct http_exchange *ex);
void api_pool_history(struct http_exchange *ex);
void api_ui(struct http_exchange *ex);
void api_profiles(struct http_exchange *ex);
void api_profile(struct http_exchange *ex);
void api_quote(struct http_exchange *ex);
void api_usage(struct http_exchange *ex);
void api_budgets(struct http_exchange *ex);
void api_budget(struct http_exchange *ex);
void api_budget_set(struct http_exchange *ex);
void api_budget_credit(struct http_exchange *ex);
void api_tokens(struct http_exchange *ex);
void api_token_create(struct http_exchange *ex);
void api_token_revoke(struct http_exchange *ex);
void api_waiting(struct http_exchange *ex);
/* modes.c */
/* A call that outlives its caller: it is answered when the result is known, if the caller is still there. The memory is
 * freed by who ends the call. */
struct api_later {
    struct http_exchange *ex; /* NULL: the caller has gone */
    struct api *api;
};
struct api_later *api_answer_later(struct http_exchange *ex);
/* "mode", and "message" when there is one. */
void api_put_mode(struct json_out *o, enum pool_mode mode, const char *message);
void api_put_counts(struct json_out *o, const unsigned by_state[POOL_STATE_COUNT]);
void api_pause(struct http_exchange *ex);
void api_resume(struct http_exchange *ex);
void api_drain(struct http_exchange *ex);
void api_reconcile(struct http_exchange *ex);
void api_reload(struct http_exchange *ex);
void api_doctor(struct http_exchange *ex);
void api_backup(struct http_exchange *ex);
void api_events(struct http_exchange *ex);
void api_metrics(struct http_exchange *ex);
void api_healthz(struct http_exchange *ex);
void api_readyz(struct http_exchange *ex);
void api_version(struct http_exchange *ex);

#endif
