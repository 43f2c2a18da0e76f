/* internal.h - what the files of the provisioner share. */
#ifndef PROVISIONER_INTERNAL_H
#define PROVISIONER_INTERNAL_H

#include "base/json.h"
#include "box/address.h"
#include "box/proxy.h"
#include "dialects/provisioner/provisioner.h"

enum {
    PROVISIONER_MOUNTS_MAX = 10,
};

struct provisioner {
    struct loop *loop;
    struct engine *engine;
    struct http_server *server; /* the daemon's */
    struct box_proxy *proxy;
    unsigned max_requests; /* through it at once */
    char key[PROVISIONER_KEY_MAX + 1];
    uint64_t principal;
    struct engine_watcher watcher;
    struct map creates;  /* under way, by sandbox_id; several may have the same */
    struct list callers; /* of creates, until they have their answers */
    struct list holds;   /* see hold.c */
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

static inline struct provisioner *provisioner_of(const struct http_exchange *ex)
{
    return http_server_ctx(ex);
}

/* The body of a create, checked. */
struct provisioner_request {
    char sandbox_id[POOL_ID_MAX + 1];
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1];
    bool has_thread;             /* the caller named it: `thread` is more than the id */
    uint64_t max_shell_sessions; /* 0: not asked for */
    const struct json *mounts;   /* checked; NULL: none */
};

/* provisioner.c */
/* {"detail": text}; retry_after_ms 0: no Retry-After. */
void provisioner_refuse(struct http_exchange *ex, int status, uint64_t retry_after_ms,
                        const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Whether the request has the right X-API-Key. */
bool provisioner_has_key(struct http_exchange *ex);

/* request.c */
/* NULL: the error has been answered. What `ret` points to lives as long as the document. */
struct json_doc *provisioner_parse(struct http_exchange *ex, struct provisioner_request *ret);
/* What the box gets in addition. */
struct provisioner_options {
    const struct json *mounts;              /* of the request */
    char thread_path[CONFIG_PATH_MAX + 1];  /* path of the thread's data; "": it stays in the box */
    size_t base_len;                        /* length of the part that is the same for all
                                             * threads */
    char closed[CONFIG_CLOSED_TEXT];        /* directories of all threads' data; "": none */
    size_t own_len[PROVISIONER_MOUNTS_MAX]; /* of each of `mounts`: see struct backend_mount */
    bool want_dirs;                         /* the backend makes the directories that DeerFlow's
                                             * agents use */
};
/* Fills `closed` and `own_len`: which mounts of a request belong to its thread. */
void provisioner_find_own(const struct config *c, const struct provisioner_request *request,
                          struct provisioner_options *ret);
/* From malloc, in one piece; NULL when there are none. */
struct backend_extras *provisioner_extras(const struct provisioner_options *o);

/* pass.c */
void provisioner_url(struct http_exchange *ex, const struct pool_box *box,
                     char ret[BOX_ADDRESS_MAX]);
void provisioner_pass(struct http_exchange *ex);
/* Whether the request could be made now. */
bool provisioner_may_pass(struct http_exchange *ex);

/* hold.c */
/* The box of this id is used: it is leased again if it is parked. A step of the pool. */
void provisioner_hold(struct provisioner *p, const char *sandbox_id);
void provisioner_end_holds(struct provisioner *p);

/* create.c */
/* Until when it waits, and how long the lease lasts. */
void provisioner_lease_times(const struct config *config, struct rt *rt, struct pool_acquire *ret);
void provisioner_create(struct http_exchange *ex);
/* Whether a create of this id is under way that will give it its first box. */
bool provisioner_is_pending(const struct provisioner *p, const char *sandbox_id);
/* Refuses those whose callers do not have the key any more. */
void provisioner_check_creates(struct provisioner *p);
/* Ends the creates of this id: it is being deleted. */
void provisioner_end_creates(struct provisioner *p, const char *sandbox_id);

/* access.c: calls of the agent of a box. Zero it first. */
struct provisioner_access {
    struct httpc_request call;
    char url[POOL_URL_MAX + 32];
    char authorization[POOL_TOKEN_MAX + 32];
    const char *headers[3];
    char body[512];
    void (*on_done)(struct provisioner_access *a, const struct err *err); /* code SP_OK: done */
};
/* Directories that DeerFlow's agents use; ends with NULL. */
extern const char *const provisioner_dirs[];
/* Makes them by the agent, for the box's user. */
void provisioner_make_dirs(struct provisioner *p, struct provisioner_access *a,
                           const struct pool_box *box,
                           void (*on_done)(struct provisioner_access *a, const struct err *err));
/* Asks it to serve without its token. */
void provisioner_open_box(struct provisioner *p, struct provisioner_access *a,
                          const struct pool_box *box,
                          void (*on_done)(struct provisioner_access *a, const struct err *err));

/* sandboxes.c */
/* The bound box of this id, if it is ours; NULL otherwise. */
const struct pool_box *provisioner_find(const struct provisioner *p, const char *sandbox_id);
/* The newest one of this id that is being destroyed. */
const struct pool_box *provisioner_find_ending(const struct provisioner *p, const char *sandbox_id);
/* Writes one SandboxResponse into the open object. `box` NULL: there is none yet. */
void provisioner_put_sandbox(struct json_out *o, struct http_exchange *ex, const char *sandbox_id,
                             const struct pool_box *box, const char *status);
void provisioner_get(struct http_exchange *ex);
void provisioner_list(struct http_exchange *ex);
void provisioner_presence(struct http_exchange *ex);

/* remove.c */
void provisioner_delete(struct http_exchange *ex);

#endif
