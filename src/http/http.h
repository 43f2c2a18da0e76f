/* http.h - HTTP/1.1 server: what handlers see. One exchange is one request and its answer. One
 * exchange at a time per connection: the next request is parsed only when the answer is written,
 * so a pipelining client is served in order and cannot fill memory.
 *
 * Lifetime: an exchange belongs to its connection. A handler that answers later keeps the pointer;
 * it stays valid until on_gone() has been called or the answer has been ended, whichever is first.
 * After http_reply()/http_end() the handler must not touch it, except in the on_sent() it gave.
 * It gets exactly one of the two: on_sent() when it ended the answer, on_gone() when it did not.
 * Callbacks come from the loop. Three functions also call back before they return, and say so: http_server_take(),
 * http_server_adopt() (handlers) and http_server_migrate() (on_gone()).
 *
 * A client that shuts its sending side down counts as gone while its request is not answered;
 * requests that arrived before and are answered at once are still served. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "http/secure.h"
#include "loop/loop.h"

enum http_method {
    HTTP_METHOD_GET,
    HTTP_METHOD_HEAD,
    HTTP_METHOD_POST,
    HTTP_METHOD_PUT,
    HTTP_METHOD_PATCH,
    HTTP_METHOD_DELETE,
    HTTP_METHOD_CONNECT, /* of a target that is no path; "CONNECT /x" is an other one */
    HTTP_METHOD_OTHER,
    HTTP_METHOD_COUNT
};
const char *http_method_name(enum http_method m);

/* Who is at the other end. */
struct http_peer {
    bool is_tcp;
    uint32_t uid; /* Unix socket: SO_PEERCRED */
    uint32_t gid;
    int32_t pid;
    char address[64];             /* TCP: for logs */
    bool is_secure;               /* TCP: with TLS */
    char name[HTTP_NAME_MAX + 1]; /* of its certificate, which was verified; "": it has none */
};

struct http_exchange;

struct http_param {
    char name[24];
    char value[272]; /* decoded */
    size_t end;      /* in the target, behind it */
};

enum { HTTP_PARAMS_MAX = 4 };

/* --- the request --- */
enum http_method http_method(const struct http_exchange *ex);
/* As it was sent, also one that http_method() has no name for. */
const char *http_method_text(const struct http_exchange *ex);
const char *http_path(const struct http_exchange *ex);   /* decoded, without the query */
const char *http_target(const struct http_exchange *ex); /* raw path and query */
/* Path parameter of the matched pattern ("/v1/sandboxes/{id}"); NULL when the pattern has none. */
const char *http_path_param(const struct http_exchange *ex, const char *name);
/* What stands behind it in the target: "/more?query" or "". The route must have it. */
const char *http_path_behind(const struct http_exchange *ex, const char *name);
/* Decoded query parameter copied to dst; false when absent (dst is ""). A value that does not fit
 * or is badly encoded must not pass for an absent one: dst is then HTTP_QUERY_BAD, which equals no
 * name and parses as no number. */
#define HTTP_QUERY_BAD "\xff"
bool http_query(const struct http_exchange *ex, const char *name, char *dst, size_t cap);
/* Header value, NULL when absent; names in any case. */
const char *http_header(const struct http_exchange *ex, const char *name);
/* The headers in their order; false behind the last. */
bool http_header_at(const struct http_exchange *ex, unsigned index, const char **ret_name,
                    const char **ret_value);
/* What the request says of its body: 0 for none, -1 when it comes in chunks. */
int64_t http_body_length(const struct http_exchange *ex);
const struct http_peer *http_peer(const struct http_exchange *ex);
/* Which route serves it; NULL: it is refused before that is known. */
const struct http_route *http_route_of(const struct http_exchange *ex);
/* The caller on this connection is who it says: see http_server_config.wants_proof. The connection counts for
 * nobody. */
void http_prove(struct http_exchange *ex);
/* The same, and its connections count together: when it has more than its share of them
 * (http_limits.share_percent) the request is refused and the connection closed. For the guard. */
void http_prove_as(struct http_exchange *ex, uint64_t who);
/* The same for one that was lent something, `who` says what: a server has guests or callers of http_prove_as(), not
 * both. All guests together leave a part of the connections to others (100 - share_percent). One over its share has
 * an idle connection of the guest with the most closed for it; when there is none it is served, and stays a caller
 * that has proven nothing. */
void http_prove_guest(struct http_exchange *ex, uint64_t who);
/* The whole body of a buffered route. */
const char *http_body(const struct http_exchange *ex, size_t *ret_len);
void *http_server_ctx(const struct http_exchange *ex);
struct loop *http_loop(const struct http_exchange *ex);

/* The handler's own data; `on_gone` is called once if the client goes away (or the server closes)
 * before the answer was ended. */
void http_set_ctx(struct http_exchange *ex, void *ctx, void (*on_gone)(void *ctx));
void *http_ctx(const struct http_exchange *ex);

/* Until it is answered, this request may be taken back with on_gone() and be served by a successor
 * as if it had just come (see http_server_migrate()). A GET may always. */
void http_may_repeat(struct http_exchange *ex);

/* From now on this exchange needs nothing of what its server serves, not even its ctx: it may outlast a
 * server that is left (see http_server_leave()). */
void http_may_stay(struct http_exchange *ex);

/* --- streamed request bodies (routes with HTTP_STREAM) ---
 * The handler is called when the headers are in, and sets these before it returns. `on_data` gets
 * the bytes as they come; after http_body_pause() none come (and the peer is slowed by TCP) until
 * http_body_resume(). `on_end` comes once, when the body is complete. */
void http_body_start(struct http_exchange *ex,
                     void (*on_data)(struct http_exchange *ex, const char *data, size_t len),
                     void (*on_end)(struct http_exchange *ex));
void http_body_pause(struct http_exchange *ex);
void http_body_resume(struct http_exchange *ex);

/* --- the answer --- */
/* Adds a header to the answer; before http_reply()/http_begin(). Invalid characters are refused by
 * assertion: values from outside must be checked first. */
void http_add_header(struct http_exchange *ex, const char *name, const char *value);
/* Called once when the answer has been handed to the kernel (SP_OK) or could not be (SP_IO). */
void http_on_sent(struct http_exchange *ex, void (*on_sent)(void *ctx, int result), void *ctx);
/* For an answer that must be undone when nobody reads it. Called once: SP_IO when it could not be
 * sent, or the client of a Unix socket closed it unread; SP_OK when the client sent more, closed in
 * order, or was closed by us. Until then the connection keeps `ctx`. */
void http_on_taken(struct http_exchange *ex, void (*on_taken)(void *ctx, int result), void *ctx);

/* A whole answer with Content-Length. The body is copied. For HEAD only the headers are sent. */
void http_reply(struct http_exchange *ex, int status, const char *content_type, const char *body,
                size_t len);
/* Takes the builder's text. */
void http_reply_json(struct http_exchange *ex, int status, struct json_out *o);
/* The one error form, or the server's own. retry_after_ms 0: none. Adds Retry-After where it fits. */
void http_reply_error(struct http_exchange *ex, int code, const char *message,
                      uint64_t retry_after_ms);
void http_reply_err(struct http_exchange *ex, const struct err *err);

/* A streamed answer, chunked (or until close for HTTP/1.0). http_write() copies and returns the
 * bytes not yet taken by the kernel; above HTTP_HIGH_WATER the writer should wait for on_drain.
 * Above http_limits.stream_max the connection is closed, and when the caller has its share of
 * http_limits.max_buffered. */
#define HTTP_HIGH_WATER (256 * 1024)
void http_begin(struct http_exchange *ex, int status, const char *content_type);
/* The same with Content-Length: exactly `length` bytes must be written before http_end() (for HEAD
 * none are), or http_abort() called; otherwise the connection is closed. */
void http_begin_sized(struct http_exchange *ex, int status, const char *content_type,
                      uint64_t length);
size_t http_write(struct http_exchange *ex, const char *data, size_t len);
void http_set_drain(struct http_exchange *ex, void (*on_drain)(struct http_exchange *ex));
void http_end(struct http_exchange *ex);
/* A stream that cannot be completed: closes the connection so that the client notices. */
void http_abort(struct http_exchange *ex);

/* --- taking the connection over (upgrade.c) ---
 * What a request wants the connection to become: the value of Upgrade, when Connection names it, the request has no body
 * and is of HTTP/1.1; else NULL, and the request is like any other. CONNECT needs none of it. Any other answer to a request
 * that asks for an upgrade, and to CONNECT, closes the connection: what its client sends next is never read as a request. */
const char *http_upgrade_wanted(const struct http_exchange *ex);
/* Instead of an answer: sends `status` (101, or 200 for CONNECT) with the headers added so far. From then on the
 * exchange is a stream of bytes in both directions, on the same connection and with its limits:
 *   http_body_start()       on_data gets what the client sends, first what came behind the request already; on_end comes
 *   http_body_pause()       when the client has ended its side, and nothing is closed by that
 *   http_write(), on_drain  bytes as they are; the same limits as for a streamed answer
 *   http_shut()             ends our side behind what was written; input goes on
 *   http_end()              the connection is closed when the kernel has all that was written; on_sent comes
 *   http_abort()            it is closed now
 * on_gone() comes when it breaks, a reader takes nothing for write_timeout_ms, or the server closes. Deadlines for
 * silence are the handler's. Only for a request without a body. */
void http_upgrade(struct http_exchange *ex, int status);
void http_shut(struct http_exchange *ex);

/* For answers that are long or make much work: `on_turn` is called soon, in a turn of the loop in which there is room for
 * it, after those that asked before; it answers, or writes a part and asks again. What it sends counts, and
 * what http_add_work() adds: work of which little is seen. Not called when the client has gone meanwhile. */
void http_wait_turn(struct http_exchange *ex, void (*on_turn)(struct http_exchange *ex));
void http_add_work(struct http_exchange *ex, size_t bytes);

/* --- routes --- */
enum {
    HTTP_STREAM = 1 << 0,   /* handler reads the body itself */
    HTTP_OPERATOR = 1 << 1, /* for the guard: operators only */
    HTTP_OPEN = 1 << 2,     /* for the guard: no token needed (health) */
    HTTP_ANY = 1 << 3,      /* serves every method, those without a name here too */
    HTTP_QUIET = 1 << 4, /* no use of what is served (health, questions about use): not counted */
    HTTP_LOOK = 1 << 5,  /* for the guard: changes nothing and shows no contents of boxes */
    HTTP_BOUND =
        1
        << 6, /* for the guard: keeps to the one user, profile or box that a token may be bound to */
};

struct http_route {
    enum http_method method; /* GET serves HEAD too */
    const char *
        pattern; /* "/v1/sandboxes/{id}/release"; a last part "*" stands for any rest; "*" of CONNECT */
    void (*handle)(struct http_exchange *ex);
    unsigned flags;
    size_t body_max;     /* 0: the server's limit, none for HTTP_STREAM */
    const char *summary; /* one line, for docs and tests */
};

/* --- the server --- */
/* Bytes per second: a body that comes slower than this for longer than header_timeout_ms is refused. */
#define HTTP_BODY_RATE 8192

struct http_limits {
    unsigned max_connections;
    unsigned max_unproven;   /* connections without proof, with wants_proof; 0: no own limit */
    unsigned share_percent;  /* of the connections it has and those that are free one caller may use
                             * this part, and TCP of all when there is a Unix socket; 0: all */
    size_t max_header_bytes; /* request line and headers together */
    size_t max_body_bytes;   /* buffered bodies */
    size_t stream_max;       /* unsent bytes of a streamed answer */
    size_t max_buffered; /* bytes in memory for all connections together: unsent answers, requests
                          * that are not answered; share_percent applies too; 0: no limit */
    uint64_t header_timeout_ms; /* first byte to end of headers; and for the body, which may take
                                 * longer by as much as HTTP_BODY_RATE gives for what has come */
    uint64_t idle_timeout_ms;   /* kept-alive connection without a request */
    uint64_t write_timeout_ms;  /* reader that takes nothing */
};

struct http_server_config {
    struct http_limits limits;
    const struct http_route *routes; /* ends with .pattern NULL; static */
    /* A parameter that begins with this and has no slash (none as %2F) takes the next part of the path along:
     * "prefix:a/b" is one. NULL: there are none. */
    const char *pair_prefix;
    void *ctx;
    /* Asked before every handler; SP_OK or a code that is answered (err filled). May be NULL. */
    int (*guard)(struct http_exchange *ex, const struct http_route *route, struct err *err);
    /* When max_connections or max_unproven is reached a new one is not refused: the oldest
     * whose caller has not been proven (by the guard, with http_prove()) is closed for it, if there
     * is one, else an idle one of a guest. Without proof a connection is kept for header_timeout_ms only. */
    bool wants_proof;
    /* Callers on Unix sockets are who their uid says, from the beginning; those of whom this says
     * true get in when all connections are taken, and have a max_buffered of their own. NULL: a uid says nothing. */
    bool (*is_operator)(void *ctx, const struct http_peer *peer);
    /* Keeps the bytes of a request until its answer: what http_server_pause() needs. */
    bool keeps_requests;
    /* Puts what the caller of `ex` may see of an error's message. NULL: all of it. */
    void (*put_message)(struct http_exchange *ex, int code, const char *message, struct buf *out);
    /* Another error form than ours: puts the body and gives its content type. May be NULL. */
    const char *(*put_error)(struct buf *out, int code, const char *message);
};

struct http_server;

struct http_server *http_server_new(struct loop *l, const struct http_server_config *config);
/* Takes over a bound, listening socket. */
MUST_CHECK int http_server_listen_fd(struct http_server *s, int fd, struct err *err);
/* Unix socket: checks the length, refuses when something answers there, removes a stale one, binds with no access, then
 * sets mode and group (gid (uint32_t) -1: leave). */
MUST_CHECK int http_server_listen_unix(struct http_server *s, const char *path, unsigned mode,
                                       uint32_t gid, struct err *err);
/* "127.0.0.1:8001", "[::1]:0"; the port is given back. */
MUST_CHECK int http_server_listen_tcp(struct http_server *s, const char *address, int *ret_port,
                                      struct err *err);
/* A connection that somebody else has accepted: as if it came from a listener of ours. Takes `fd` over,
 * also when it fails. Handlers may be called from inside. */
MUST_CHECK int http_server_take(struct http_server *s, int fd, struct err *err);
void http_server_set_limits(struct http_server *s, const struct http_limits *limits);
/* TCP connections that are accepted from now on have a session of it; ops NULL: they have none. A take-over does not pass them
 * on: they are closed when they are idle, and a request that could be repeated is answered SP_DRAINING. */
void http_server_set_secure(struct http_server *s, const struct http_secure *secure);
/* Stops accepting and closes idle connections; running exchanges go on and are then closed. */
void http_server_stop(struct http_server *s);
size_t http_server_connections(const struct http_server *s);
/* Closes everything (on_gone() of running exchanges comes), then frees. Unix sockets bound here are unlinked. */
void http_server_close(struct http_server *s, void (*on_closed)(void *ctx), void *ctx);

/* --- handing the connections to another server, of this process or of its successor --- */
/* Accepts nothing and begins no request: both wait in the kernel. Requests that a handler has go on. The
 * listeners are closed; who wants to resume has kept a duplicate of theirs. */
void http_server_pause(struct http_server *s);
/* Goes on; the listeners are added again by the caller. */
void http_server_resume(struct http_server *s);
/* How many connections a paused server cannot hand out yet, and how many of the others wait for the
 * answer to a request that can be repeated. */
struct http_pending {
    size_t busy;
    size_t repeatable;
    size_t staying; /* of none of these kinds: see http_may_stay() */
};
void http_server_get_pending(const struct http_server *s, struct http_pending *ret);
/* Closes every connection of a paused server whose answer is complete and not read to its end: nobody waits
 * for a reader that takes its time. Returns how many. */
size_t http_server_cut_unread(struct http_server *s);
/* Gives every connection of a paused server that is not busy to `take`, with what has been read of it
 * and not been answered; `fd` is then the taker's, `bytes` is valid during the call. A handler whose
 * request is repeated gets on_gone(), from inside this function. They are closed here afterwards. */
void http_server_migrate(struct http_server *s,
                         void (*take)(void *ctx, int fd, const char *bytes, size_t len), void *ctx);
/* Closes a paused server but for the connections of exchanges that may stay: they end in their own time,
 * and their connections are closed behind the answer. `on_quiet` comes when there are no others, and
 * `on_closed` when the last has gone and the server is freed; never before `on_quiet`. */
void http_server_leave(struct http_server *s, void (*on_quiet)(void *ctx), void *quiet_ctx,
                       void (*on_closed)(void *ctx), void *ctx);
/* Closes those as well: between http_server_leave() and its on_closed(). */
void http_server_cut_staying(struct http_server *s);
/* The other end of it: serves `bytes` and what comes after them. Takes `fd` over, also when it fails.
 * Handlers may be called from inside. */
MUST_CHECK int http_server_adopt(struct http_server *s, int fd, const char *bytes, size_t len,
                                 struct err *err);

struct http_stats {
    uint64_t accepted;
    uint64_t refused; /* over max_connections */
    uint64_t requests;
    uint64_t bad_requests;
    size_t open;
    size_t buffered; /* bytes, see http_limits.max_buffered */
    /* Of requests that the guard let in, without those of quiet routes: */
    size_t serving;
    uint64_t used_ns; /* when one last began or ended; 0: none has */
};
void http_server_get_stats(const struct http_server *s, struct http_stats *ret);

#endif
