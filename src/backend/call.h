/* call.h - one HTTP call of a backend to whoever makes its boxes. A backend puts its own struct around it, with what an
 * answer means there. */
#ifndef BACKEND_CALL_H
#define BACKEND_CALL_H

#include "backend/closing.h"
#include "base/buf.h"
#include "loop/httpc.h"

struct call {
    struct op op; /* SP_OK: there is an answer, whatever it says; else nothing is known */
    struct closing *closing;
    struct buf path; /* without scheme and host */
    struct buf url;
    struct buf body;        /* owned; JSON unless one of the headers says something else */
    const char *headers[4]; /* borrowed; ends with NULL */
    struct httpc_request http;
    bool is_sent;                      /* it was given to the connection */
    void (*on_answer)(struct call *c); /* before the operation ends; may be NULL */
    struct list_node link;             /* for whoever lets calls wait */
};

struct call_limits {
    size_t path;
    size_t body;
    size_t answer; /* bytes of a response */
};

/* On a zeroed or finished object that is not in use. */
void call_init(struct call *c, struct closing *closing, const char *method,
               const struct call_limits *limits);
void call_fini(struct call *c);
/* Appends to the path, encoded. */
void call_put(struct call *c, const char *text);
/* One more header line, borrowed; at most three. NULL is ignored. */
void call_header(struct call *c, const char *line);
/* op_begin() among the backend's own operations; `on_cancel` NULL: the HTTP request is cancelled. */
void call_begin(struct call *c, uint64_t deadline_ns, void (*on_cancel)(struct op *),
                void (*on_done)(struct op *));
/* Sends `url` + path; the caller has set what else http needs. What changes something is never sent twice behind our
 * back. */
void call_send(struct call *c, struct httpc *http, const char *url);

#endif
