/* http_call.h - fixture of the HTTP client's tests: a loop, a client, a server that misbehaves, and
 * requests that count their completions. Every completion is checked: exactly once, never from
 * inside start or cancel. */
#ifndef TESTS_HTTP_CALL_H
#define TESTS_HTTP_CALL_H

#include "loop/httpc.h"
#include "tests/unit/loop/bad_server.h"

struct call {
    struct httpc_request http;
    struct fixture *f;
    char url[300];
    unsigned done;
    int result;
    struct rt_timer cancel;
};

struct fixture {
    struct loop loop;
    struct httpc *client;
    struct bad_server server;
    struct rt_timer limit;
    struct rt_timer rest; /* of a test that waits for nothing to happen */
    size_t fds;
    unsigned want;   /* completions still to come; the loop stops at the last */
    bool is_calling; /* inside start or cancel */
    bool is_closed;
};

int set_up_process(void **state);
int set_up(void **state);
/* Two connections for everything, and little time to make one. */
int set_up_narrow(void **state);
/* Demands that no descriptor and no handle is left. */
int tear_down(void **state);

/* A GET of the server's path. */
void prepare_call(struct fixture *f, struct call *call, const char *path);
void start_call(struct call *call, uint64_t timeout_ms);
void cancel_call(struct call *call);
/* Starts it and runs the loop to its end; returns the result. */
int run_call(struct call *call);
/* on_closed() of httpc_close(), with the fixture as ctx. */
void on_client_closed(void *ctx);

#endif
