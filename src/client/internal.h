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
