/* internal.h - what the files of the client share. */
#ifndef CLIENT_INTERNAL_H
#define CLIENT_INTERNAL_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/json.h"
#include "sandpool/client.h"

enum {
    CLIENT_BODY_MAX = 64 * 1024 * 1024,
    CLIENT_TIMEOUT_MS = 60 * 1000,
    CLIENT_TARGET_MAX = 8 * 1024,
};

struct sp_client {
    char socket[256];
    int fd; /* -1: not connected */
    uint64_t timeout_ms;
    int interrupt_fd; /* -1: none */
};

struct answer;

/* --- failure.c: both return the code, so that a failing call is one line --- */

int client_fail(struct sp_failure *f, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* From an answer that is no 2xx. */
int client_fail_http(struct sp_failure *f, const struct answer *a);
/* From the object `error` of one of several results. */
void client_read_error(const struct json *error, struct sp_failure *ret);

/* --- wire.c: the connection; all times are on the monotonic clock, in ms --- */

uint64_t wire_now_ms(void);
MUST_CHECK int wire_connect(struct sp_client *c, uint64_t deadline_ms, struct sp_failure *f);
void wire_close(struct sp_client *c);
/* False when the server has closed a connection that we kept, or says something unasked. */
bool wire_is_open(const struct sp_client *c);
/* *ret_sent counts also when it fails. */
MUST_CHECK int wire_send(struct sp_client *c, const char *data, size_t len, uint64_t deadline_ms,
                         size_t *ret_sent, struct sp_failure *f);
/* Length, 0 at the end of the connection, or a negative code. */
MUST_CHECK int wire_recv(struct sp_client *c, char *data, size_t cap, uint64_t deadline_ms,
                         struct sp_failure *f);

/* --- sandbox.c: calls with typed arguments and results --- */

/* A null or absent member is "". */
MUST_CHECK bool client_take(const struct json *obj, const char *key, char *dst, size_t cap);
void client_put_id(struct buf *target, const char *id);
/* Nothing for NULL, and for 0. */
void client_put_query(struct buf *target, const char *key, const char *value);
void client_put_query_u64(struct buf *target, const char *key, uint64_t value);
/* Sends what was built, and frees it. On SP_OK *ret is an object. */
MUST_CHECK int client_ask(struct sp_client *c, const char *method, struct buf *target,
                          struct buf *body, struct json_doc **ret, struct sp_failure *f);
/* The items of `list` of all pages: the next begins with what `next` of the last says, given as `after`. */
MUST_CHECK int client_walk(struct sp_client *c, const char *target, const char *list,
                           const char *next, const char *after,
                           bool (*on_item)(void *ctx, const struct json *item), void *ctx,
                           struct sp_failure *f);

/* --- lease.c --- */

void client_put_pairs(struct json_out *o, const char *key, const struct sp_env *pairs,
                      size_t count);
void client_put_times(struct json_out *o, bool has_wait, uint64_t wait_ms, uint64_t ttl_s,
                      uint64_t idle_timeout_s);
MUST_CHECK bool client_read_lease(const struct json *o, struct sp_lease *ret);

/* --- answer.c: one HTTP answer --- */

struct answer_parser;

struct answer {
    const char *peer; /* who answers, for messages */
    struct answer_parser *parser;
    bool wants_upgrade; /* 101 is an answer */
    bool is_raw;        /* and it was given: `body` is what came behind it */
    bool is_head;       /* an answer to HEAD has no body whatever its headers say */
    bool is_started;    /* a byte came */
    bool is_done;
    bool is_stopped; /* on_data did not want more */
    bool can_keep;   /* the connection may be used again */
    int status;
    uint64_t retry_after_s;
    uint64_t offset; /* X-Sandpool-Offset: where a piece of something begins */
    char accept[32]; /* Sec-WebSocket-Accept */
    struct buf body;
    /* Streaming: a 2xx's body goes here and not into `body`. */
    bool (*on_data)(void *ctx, const char *data, size_t len);
    void *ctx;
};

/* `peer` is static: "the daemon". */
void answer_init(struct answer *a, const char *peer, bool is_head);
void answer_fini(struct answer *a);
/* Takes bytes of the connection; len 0 is its end. */
MUST_CHECK int answer_feed(struct answer *a, const char *data, size_t len, struct sp_failure *f);

#endif
