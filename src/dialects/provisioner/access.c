/* access.c - what the agent of a box has to do before the caller gets the box: make directories,
 * and with `boxes: open` serve without its token. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "dialects/provisioner/internal.h"

#define CALL_TIMEOUT_NS (5 * NS_PER_S)
enum { ANSWER_MAX = 16 * 1024 };

static void on_called(struct op *op)
{
    struct provisioner_access *a = container_of(op, struct provisioner_access, call.op);
    struct err err = op->err;

    err.code = op->result;
    if (op->result == SP_OK && a->call.status != 200)
        (void) err_set(&err, SP_BACKEND_FAILED, "the box answered %d", a->call.status);
    httpc_request_fini(&a->call);
    a->on_done(a, &err); /* it may be freed from here on */
}

static void call(struct provisioner *p, struct provisioner_access *a, const struct pool_box *box,
                 const char *path, const char *body)
{
    (void) snprintf(a->url, sizeof(a->url), "%s%s", box->url, path);
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
    httpc_start(box_proxy_http(p->proxy), &a->call, rt_after(rt_now(&p->loop->rt), CALL_TIMEOUT_NS),
                on_called);
}

const char *const provisioner_dirs[] = {"/mnt/user-data",
                                        "/mnt/user-data/workspace",
                                        "/mnt/user-data/uploads",
                                        "/mnt/user-data/outputs",
                                        "/mnt/skills",
                                        "/mnt/acp-workspace",
                                        NULL};

void provisioner_make_dirs(struct provisioner *p, struct provisioner_access *a,
                           const struct pool_box *box,
                           void (*on_done)(struct provisioner_access *a, const struct err *err))
{
    struct json_out o;
    struct buf body;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "sudo", true);
    json_begin_arr(&o, "paths");
    for (const char *const *dir = provisioner_dirs; *dir != NULL; dir++)
        json_put_str(&o, NULL, *dir);
    json_end(&o);
    json_end(&o);
    buf_init(&body, sizeof(a->body));
    json_out_finish(&o, &body);
    str_copy_cut(a->body, sizeof(a->body), buf_str(&body)); /* has room for it */
    buf_fini(&body);
    a->on_done = on_done;
    call(p, a, box, "/v1/agent/directories", a->body);
}

void provisioner_open_box(struct provisioner *p, struct provisioner_access *a,
                          const struct pool_box *box,
                          void (*on_done)(struct provisioner_access *a, const struct err *err))
{
    a->on_done = on_done;
    call(p, a, box, "/v1/agent/access", "{\"open\":true}");
}
