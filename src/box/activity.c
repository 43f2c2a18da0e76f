/* activity.c - one GET to the agent of a box: whether anything is at work in it. A failed request or a
 * malformed response proves nothing; a missing path means that the agent cannot report it. */
#include "box/activity.h"

#include <stdio.h>

#include "base/json.h"
#include "base/str.h"

enum { ANSWER_MAX = 16 * 1024 };

void box_activity_start(struct httpc *http, struct box_activity *a, const char *url,
                        const char *token, uint64_t deadline_ns, void (*on_done)(struct op *))
{
    (void) snprintf(a->url, sizeof(a->url), "%s/v1/agent/activity", url);
    (void) snprintf(a->authorization, sizeof(a->authorization), "Authorization: Bearer %s", token);
    a->headers[0] = str_is_empty(token) ? NULL : a->authorization;
    a->headers[1] = NULL;
    a->request.method = "GET";
    a->request.url = a->url;
    a->request.headers = a->headers;
    a->request.response_max = ANSWER_MAX;
    a->request.want_fresh = true; /* no idle connections to boxes */
    httpc_start(http, &a->request, deadline_ns, on_done);
}

static enum box_use read_answer(const struct buf *text, uint64_t *ret_idle_ms)
{
    struct json_doc *doc = json_parse(buf_str(text), text->len, ANSWER_MAX, NULL);
    const struct json *root = doc != NULL ? json_root(doc) : NULL;
    bool is_busy = false;
    bool is_good = root != NULL && json_is_obj(root) && json_get(root, "busy") != NULL &&
                   json_get(root, "idle_ms") != NULL &&
                   json_field_bool(root, "busy", &is_busy, NULL) == SP_OK &&
                   json_field_u64(root, "idle_ms", 0, UINT64_MAX, ret_idle_ms, NULL) == SP_OK;

    (void) json_doc_free(doc);
    if (!is_good)
        return BOX_USE_UNKNOWN;
    return is_busy ? BOX_USE_BUSY : BOX_USE_NONE;
}

enum box_use box_activity_result(const struct box_activity *a, uint64_t *ret_idle_ms)
{
    const struct httpc_request *r = &a->request;

    *ret_idle_ms = 0;
    if (r->op.result != SP_OK)
        return BOX_USE_UNKNOWN;
    if (r->status == 404 || r->status == 405 || r->status == 501)
        return BOX_USE_CANNOT;
    return r->status == 200 ? read_answer(&r->response, ret_idle_ms) : BOX_USE_UNKNOWN;
}

void box_activity_fini(struct box_activity *a)
{
    httpc_request_fini(&a->request);
}
