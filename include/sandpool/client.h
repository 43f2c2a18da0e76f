/* client.h - blocking C client of the sandpool API: what the CLI, the benchmark and the tests use.
 *
 * A client is one kept-alive connection over the daemon's Unix socket. It is not thread-safe: use
 * one per thread. Every call has a deadline; a call that fails leaves the client usable (it
 * reconnects). Answers are JSON texts, as the daemon sent them; typed helpers exist for the calls
 * that programs make in a loop. */
#ifndef SANDPOOL_CLIENT_H
#define SANDPOOL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandpool/errors.h"

#define SP_DEFAULT_SOCKET "/run/sandpool/sandpool.sock"

struct sp_client;

/* Why a call failed. */
struct sp_failure {
    int code;                /* enum sp_error */
    int http_status;         /* 0 when there was no answer */
    uint64_t retry_after_ms; /* 0: not given */
    char name
        [40]; /* the code as the answer has it, also one that `code` does not know; "" without an answer */
    char message[512];
};

/* `socket` NULL: $SANDPOOL_SOCKET, else SP_DEFAULT_SOCKET. Does not connect yet. Never NULL. */
struct sp_client *sp_client_new(const char *socket);
void sp_client_free(struct sp_client *c); /* NULL is fine */
const char *sp_client_socket(const struct sp_client *c);
/* How long one call may take; 0 is the default of 60 s. An acquire may take its wait_ms more. */
void sp_client_set_timeout(struct sp_client *c, uint64_t timeout_ms);
/* If `fd` becomes readable while a call waits, the call closes its connection and fails with
 * SP_CANCELLED; -1: none. */
void sp_client_set_interrupt(struct sp_client *c, int fd);

/* One call. `body` NULL: none. The answer's body (NUL-terminated, from malloc, the caller frees) is put in
 * *ret_body on success. SP_OK for a 2xx, else a negative code and `failure` (may be NULL) is filled. */
int sp_call(struct sp_client *c, const char *method, const char *target, const char *body,
            char **ret_body, struct sp_failure *failure);

/* Streams an answer: on_data gets the bytes as they come until the answer ends, the connection
 * breaks, or on_data returns false. The call's timeout counts between two pieces. */
int sp_stream(struct sp_client *c, const char *target, const char *last_event_id,
              bool (*on_data)(void *ctx, const char *data, size_t len), void *ctx,
              struct sp_failure *failure);

struct sp_env {
    const char *name;
    const char *value;
};

struct sp_mount {
    const char *host_path;      /* on the daemon's machine */
    const char *container_path; /* in the box */
    bool is_read_only;
};

struct sp_acquire {
    const char *thread_id;  /* NULL: anonymous */
    const char *user_id;    /* NULL: "default" */
    const char *profile;    /* NULL: the thread's own, else `default` */
    const char *sandbox_id; /* NULL: computed by the daemon */
    const char *request_id; /* NULL: none; GET /v1/waiting finds the acquire by it while it waits */
    bool has_wait;
    uint64_t wait_ms; /* with has_wait; else the daemon's default */
    uint64_t ttl_s;   /* 0: the profile's */
    uint64_t idle_timeout_s;
    const char *metadata_json;   /* NULL: none */
    const char *snapshot_id;     /* NULL: none; else the box has its files */
    const char *network;         /* NULL: any; else only a profile with this one */
    const struct sp_env *labels; /* only a profile with these */
    size_t label_count;
    /* Applied to the box before the answer. */
    const struct sp_env *envs;
    size_t env_count;
    const struct sp_mount *mounts;
    size_t mount_count;
    uint64_t memory; /* bytes; 0: the profile's */
    double cpus;     /* 0: the profile's */
    uint64_t pids;   /* 0: the profile's */
};

struct sp_lease {
    char sandbox_id[65];
    uint64_t generation;
    char box_id
        [17]; /* "box:" and this is an id of this very box: a replacement is never taken for it */
    char sandbox_url[193];
    char token[65];
    char source[16];
    char state[16];
};

int sp_acquire(struct sp_client *c, const struct sp_acquire *a, struct sp_lease *ret,
               struct sp_failure *failure);
/* Gives it back: kept for its thread, or destroyed. An id as in sandbox.h; generation 0: any. */
int sp_release(struct sp_client *c, const char *id, uint64_t generation, bool want_destroy,
               struct sp_failure *failure);

#endif
