/* conn.h - inside of the server: connection, exchange and server as their files share them.
 *
 * A connection reads all the time (64 KiB at most ahead of what it has parsed), so that a client
 * that hangs up is noticed while its request waits. EOF means gone for a request that has not been
 * answered yet; requests that came whole before it and are answered at once are still served.
 *
 * Callbacks of handlers (on_gone, on_sent, on_drain, on_data, on_end) are never called from inside
 * a function of http.h: such a function notes what happened and defers conn_run(). An exchange gets
 * either on_sent() (its answer was ended) or on_gone() (it was not), never both. */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include <uv.h>

#include "base/effort.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rt.h"
#include "http/http.h"
#include "http/parse.h"
#include "http/router.h"

enum {
    CONN_READ_SIZE = 64 * 1024,          /* one read, and most that is kept unparsed */
    CONN_LINGER_BYTES = 4 * 1024 * 1024, /* dropped after a refusal, then the door is shut */
    CONN_LINGER_MS = 2000,
    BODY_UNUSED_MAX = 4 * 1024, /* of a request that needs none */
    CONN_REFUSING_MAX = 32,     /* over the cap and still being refused */
    CONN_OPERATORS_MAX = 64,    /* over the cap, for operators */
    REPLY_MAX = 256 * 1024 * 1024,
    EXCHANGE_POOL_MAX = 64,
    EXCHANGE_KEEP_BYTES = 16 * 1024, /* buffers longer than this are not kept for the next */
};

enum conn_phase { CONN_OPEN, CONN_LINGER, CONN_CLOSED, CONN_PHASE_COUNT };

/* What the timer is for. */
enum conn_wait {
    CONN_WAIT_NONE,
    CONN_WAIT_IDLE,
    CONN_WAIT_HEAD,
    CONN_WAIT_BODY,
    CONN_WAIT_TURN, /* its body makes much work: others first */
    CONN_WAIT_WRITE,
    CONN_WAIT_LINGER,
    CONN_WAIT_COUNT
};

union stream {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_pipe_t pipe;
    uv_tcp_t tcp;
};

/* Bytes the kernel did not take at once; exists only then. `cur` is being written, `next`
 * collects what comes meanwhile, so that many small writes become one. */
struct flight {
    uv_write_t req;
    struct conn *conn;
    struct buf cur;
    struct buf next;
    bool is_flying;
};

/* What waits for its turn, of one caller; see turns.c. */
struct share {
    struct list_node link; /* lane->ring, while something waits */
    struct list requests;  /* of exchanges that are not begun */
    struct list answers;   /* of exchanges that make a long answer */
    int64_t balance;       /* cost of answers minus that of requests, as long as both wait */
};

/* Callers that share what one turn of the loop spends on requests. */
struct lane {
    struct list ring; /* of shares, the next first */
    struct effort effort;
};

enum lane_kind { LANE_OPERATORS, LANE_OTHERS, LANE_COUNT };

/* Whose connections count together. */
struct caller {
    struct map_node node;
    uint64_t who;
    size_t refs; /* connections, with those that are being closed */
    size_t open; /* without them */
    size_t held; /* bytes */
    bool is_guest;
    struct share share;
};

struct conn {
    struct list_node link;          /* server->conns, or server->refusing */
    struct list_node unproven_link; /* server->unproven, as long as its caller is not known */
    struct caller *caller;          /* it counts for; NULL: nobody */
    struct http_server *server;
    union stream u;
    struct http_peer peer;
    struct rt_timer timer; /* armed at or before deadline_ns, so that it is moved seldom */
    uint64_t deadline_ns;
    struct rt_task task;      /* conn_run() soon */
    struct http_exchange *ex; /* from the first byte of a request until its answer is out */
    struct flight *flight;
    struct buf ahead;      /* read, not parsed */
    uint64_t sent;         /* bytes given to be written, for the progress of a slow reader */
    uint64_t taken_before; /* conn_taken() at the last look */
    size_t lingered;
    size_t held;                             /* bytes, as counted last; see held.c */
    void (*on_taken)(void *ctx, int result); /* of the last answer, until its fate is known */
    void *taken_ctx;
    enum conn_phase phase;
    enum conn_wait wait;
    bool is_reading;
    bool is_eof;
    struct effort effort; /* of its bodies */
    bool is_running;      /* inside conn_run() */
    bool is_refused;      /* over max_connections */
    bool is_proven;       /* http_prove() */
    bool is_counted;      /* callers_add() */
    bool is_operator;     /* on a Unix socket */
    bool is_staying;      /* the server was left, and it goes on */
    const struct http_secure_ops *secure;
    void *session;    /* NULL: it has no TLS */
    bool is_shaken;   /* the handshake is over */
    bool is_sealed;   /* our side has been ended */
    bool is_wire_eof; /* no more bytes come, whatever the session has left */
};

enum exchange_input { EXCHANGE_HEAD, EXCHANGE_BODY, EXCHANGE_DONE, EXCHANGE_INPUT_COUNT };

struct http_exchange {
    struct list_node link; /* in the server's pool */
    struct conn *conn;
    struct parse req;
    struct router_match match;
    struct buf body;
    struct buf raw;     /* the request as it came, if the server keeps_requests */
    struct buf headers; /* of the answer, added by the handler */
    struct buf out;
    void *ctx;
    void (*on_gone)(void *ctx);
    void (*on_data)(struct http_exchange *ex, const char *data, size_t len);
    void (*on_end)(struct http_exchange *ex);
    void (*on_drain)(struct http_exchange *ex);
    void (*on_sent)(void *ctx, int result);
    void *sent_ctx;
    void (*on_taken)(void *ctx, int result);
    void *taken_ctx;
    void (*on_turn)(struct http_exchange *ex); /* not NULL: it waits for its turn */
    struct list_node turn_link;                /* turn_list */
    struct list *turn_list;                    /* of turn_share, or server->parked */
    struct share *turn_share;
    uint64_t turn;         /* of the loop, in which it had its turn to begin */
    uint64_t length_left;  /* of a sized answer: what is still to be written */
    uint64_t body_left_ns; /* that the body may still take, and since when that runs */
    uint64_t body_since_ns;
    enum exchange_input input;
    bool is_owned;      /* a handler has it */
    bool is_begun;      /* headers of a streamed answer are out */
    bool is_ended;      /* nothing more will be written */
    bool is_chunked;    /* streamed answer */
    bool is_sized;      /* streamed answer with a length */
    bool is_paused;     /* handler wants no body now */
    bool wants_drain;   /* the handler was asked to wait */
    bool must_close;    /* after the answer */
    bool must_linger;   /* the client may still be sending */
    bool may_repeat;    /* http_may_repeat() */
    bool may_stay;      /* http_may_stay() */
    bool is_upgraded;   /* http_upgrade() */
    bool is_shutting;   /* http_shut() */
    bool is_shut;       /* the kernel knows */
    bool is_end_known;  /* on_end() of an upgraded one was called */
    bool is_over_share; /* http_prove_as() */
    bool is_use;        /* counted in http_stats.serving */
};

struct http_server {
    struct loop *loop;
    struct http_server_config config;
    struct http_limits limits;
    struct list conns;
    struct list unproven; /* of them, the oldest first */
    struct map callers;
    size_t tcp_open;
    size_t guests_open;
    size_t held; /* bytes in memory for connections, without those of operators */
    size_t tcp_held;
    size_t operators_held;
    bool has_unix; /* a listener on a Unix socket */
    struct list refusing;
    struct list listeners;
    struct list pool; /* of exchanges */
    char *read_buf;   /* shared: what is read is parsed or copied at once */
    struct buf scratch;
    struct http_secure secure;
    uint64_t shake_turn; /* of the loop, in which `shakes` steps of handshakes were made */
    unsigned shakes;
    struct effort effort; /* of all bodies */
    struct lane lanes[LANE_COUNT];
    struct share operators; /* on a Unix socket */
    struct share proven;    /* without a caller of their own */
    struct share strangers;
    struct list parked; /* of exchanges: their turn came while the server was paused */
    struct rt_task turn_task;
    struct rt_timer turn_timer;
    struct http_stats stats;
    struct rt_task task; /* the last step of closing */
    void (*on_closed)(void *ctx);
    void *closed_ctx;
    void (*on_quiet)(void *ctx); /* http_server_leave(), until it was called */
    void *quiet_ctx;
    struct rt_task quiet_task;
    bool has_connect; /* a route for it */
    bool is_paused;
    bool is_stopping;
    bool is_closing;
};

static inline size_t rest_of(size_t max, size_t used)
{
    return max > used ? max - used : 0;
}

/* migrate.c */
/* conn_run() of every connection soon. */
void server_run_all(struct http_server *s);
/* The server is paused and this connection has no request that anybody works on: it is not read. */
bool conn_holds(const struct conn *c);
/* Its exchange may stay, http_may_stay(). */
bool conn_stays(const struct conn *c);
/* One connection or listener less: says so when there are only staying ones left. */
void server_check_quiet(struct http_server *s);

/* server.c */
/* A handle for one more connection or listener is closed; ends a closing server. */
void server_check_closed(struct http_server *s);

/* accept.c */
/* Takes a connection from a listener. */
void conn_accept(struct http_server *s, uv_stream_t *listener, bool is_tcp);

/* callers.c */
/* An accepted connection, its peer known; one that is being closed; and one whose memory is free. */
void callers_add(struct conn *c);
void callers_remove(struct conn *c);
void callers_forget(struct conn *c);
/* Most of `max` that TCP may have: a part is kept for the Unix socket. */
size_t callers_tcp_part(const struct http_server *s, size_t max);
/* False when `who` has its share of the connections already. */
bool callers_enter(struct conn *c, uint64_t who);
/* Closes an idle connection of the guest with the most: of one that has more than `own`, or of `own` itself. NULL:
 * of anyone. False when there is none. */
bool callers_make_way(struct http_server *s, const struct caller *own);

/* held.c */
/* Counts what this connection holds now; after its buffers have changed. */
void held_count(struct conn *c);
/* Its caller has its share of the memory, or all of it is taken. */
bool held_is_over(const struct conn *c);
/* Before a request is served. True: it has been answered. */
bool held_refuses(struct http_exchange *ex);
/* After input was taken: counts, and refuses a request for which there is no memory. One that waits
 * is closed when its client sends more behind it. */
void held_check_input(struct conn *c);
/* Most bytes that may be read ahead of what is parsed. */
size_t held_ahead_max(const struct conn *c);

/* conn.c */
/* Runs over the unparsed rest, then over `data`, and keeps what is left. */
void conn_feed(struct conn *c, const char *data, size_t len);
/* Serves what can be served now. From callbacks of the loop only. */
void conn_run(struct conn *c);
/* conn_run() soon, unless it runs already. */
void conn_defer(struct conn *c);
void conn_close(struct conn *c);
/* Reads what has come for it already, once, without waiting for the loop. */
void conn_read_now(struct conn *c);
/* Whose body makes much work gets a part of a turn of the loop; then everybody else has their turn. */
bool conn_is_resting(const struct conn *c);

/* conn_wait.c */
/* Decides what an open connection waits for, and sets its timer. */
void conn_set_wait(struct conn *c);
/* `came` bytes of a body have come. The time for a body runs while we wait for it, and grows with what comes. So a client
 * that sends a byte now and then is refused as soon as one that sends nothing. */
void conn_charge_body(struct conn *c, size_t came);

/* output.c */
/* Sends now what the kernel takes and keeps the rest. Closes the connection when it is broken. */
void conn_send(struct conn *c, const uv_buf_t *bufs, unsigned count);
/* The same, as it is. */
void conn_send_raw(struct conn *c, const uv_buf_t *bufs, unsigned count);
/* The same; takes the memory of `out` over instead of copying when something is left. */
void conn_send_buf(struct conn *c, struct buf *out);
/* Bytes the kernel has not taken. 0 while sending: taken, but libuv has not said so yet. */
size_t conn_unsent(const struct conn *c);
bool conn_is_sending(const struct conn *c);
/* Grows when the reader takes something. The kernel reports that a socket can be written again only
 * when most of its queue is gone, so what it still holds counts as not taken. Its count includes
 * overhead: it shows a change, not a number of bytes. */
uint64_t conn_taken(const struct conn *c);
void conn_drop_flight(struct conn *c);

/* exchange.c */
struct http_exchange *exchange_new(struct conn *c);
void exchange_release(struct http_exchange *ex);
void exchange_free(struct http_exchange *ex);
/* The headers are in: finds the route, asks the guard, checks the body's size, calls a handler. */
void exchange_start(struct http_exchange *ex);
/* The body is complete. */
void exchange_finish_body(struct http_exchange *ex);
/* Answers with an error by itself and closes after it; a handler that has it is notified first. */
void exchange_refuse(struct http_exchange *ex, int code, const char *message,
                     uint64_t retry_after_ms);
/* on_gone() or on_sent(SP_IO), once. */
void exchange_lost(struct http_exchange *ex);

/* turns.c */
void turns_init(struct http_server *s);
void turns_init_share(struct share *share);
/* A request of this connection can be served now: there is room for it, and nobody else waits. */
bool turns_have_room(const struct conn *c);
/* It has begun in this turn of the loop and is short: `go` needs no room of its own. */
bool turns_has_begun(const struct http_exchange *ex);
/* Calls `go` now and counts what it makes; or in its caller's turn. Not when the client goes before. */
void turns_go(struct http_exchange *ex, void (*go)(struct http_exchange *ex));
void turns_wait(struct http_exchange *ex, void (*go)(struct http_exchange *ex));
/* It does not wait for its turn any more. */
void turns_leave(struct http_exchange *ex);
/* The server is not paused any more. */
void turns_resume(struct http_server *s);

void conn_update(struct conn *c);

/* secure.c: connections with TLS. All but the first and the last two are for such only. */
MUST_CHECK bool secure_open(struct conn *c); /* its peer is known; false: it cannot be served */
void secure_input(struct conn *c, const char *data, size_t len);
void secure_wire_eof(struct conn *c);
void secure_run(struct conn *c); /* what has come and can be looked at now */
void secure_send(struct conn *c, const uv_buf_t *bufs, unsigned count);
void secure_end(struct conn *c); /* nothing more is sent; does nothing without a session */
void secure_close(struct conn *c);
bool secure_has_more(const struct conn *c); /* has come, and not been looked at */
bool secure_waits_for_turn(const struct conn *c);
bool secure_is_open(const struct conn *c); /* something can be sent */

/* upgrade.c */
/* The request wants its connection to become something else, in whatever way: what its client sends next may be no
 * request. Plain HTTP/2 is not meant: its clients wait for the answer, and often ask for it with each first request. */
bool upgrade_is_asked(const struct http_exchange *ex);
/* Gives `data` to the handler of an upgraded exchange; returns the bytes used. */
size_t upgrade_feed(struct http_exchange *ex, const char *data, size_t len);
/* Ends our side when that is due; when all input was taken and no more will come, its handler is notified: true. */
bool upgrade_step(struct conn *c, bool is_all_taken);
static inline bool conn_is_upgraded(const struct conn *c)
{
    return c->ex != NULL && c->ex->is_upgraded;
}

/* answer.c */
/* Queues the interim answer that a client with Expect waits for. */
void answer_continue(struct http_exchange *ex);

#endif
