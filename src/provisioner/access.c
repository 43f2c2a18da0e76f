/* access.c - `boxes: open`: the agent of a box is told to serve without its token. */
#include <stdio.h>
#include <string.h>

#include "provisioner/internal.h"

#define OPEN_TIMEOUT_NS (5 * NS_PER_S)
enum { ANSWER_MAX = 16 * 1024 };

static void on_called(struct op *op)
{
    struct provisioner_access *a = container_of(op, struct provisioner_access, call.op);
    struct err err = op->err;

    err.code = op->result;
    if (op->result == SP_OK && a->call.status != 200)
        (void) err_set(&err, SP_BACKEND_FAILED, "the box answered %d", a->call.status);
    httpc_request_fini(&a->call);
    a->on_done(a, &err); /* it may be gone from here on */
}

void provisioner_open_box(struct provisioner *p, struct provisioner_access *a,
                          const struct pool_box *box,
                          void (*on_done)(struct provisioner_access *a, const struct err *err))
{
    static const char body[] = "{\"open\":true}";

    a->on_done = on_done;
    (void) snprintf(a->url, sizeof(a->url), "%s/v1/agent/access", box->url);
    (void) snprintf(a->authorization, sizeof(a->authorization), "Authorization: Bearer %s",
                    box->token);
    a->headers[0] = a->authorization;
    a->headers[1] = "Content-Type: application/json";
    a->call.method = "POST";
    a->call.url = a->url;
    a->call.headers = a->headers;
    a->call.body = body;
    a->call.body_len = strlen(body);
    a->call.response_max = ANSWER_MAX;
    a->call.want_fresh = true;
    httpc_start(p->http, &a->call, rt_after(rt_now(&p->loop->rt), OPEN_TIMEOUT_NS), on_called);
}
