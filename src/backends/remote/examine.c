/* examine.c - what `sandpool doctor` shows of this backend: does the provisioner answer, does it take our
 * key, what does it say it can do. */
#include <stdlib.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/mem.h"
#include "base/str.h"

/* `priv` of the request. */
struct examining {
    struct remote *remote;
    struct backend_exam *request;
    struct call call;
};

static void end(struct examining *x)
{
    struct backend_exam *r = x->request;

    r->priv = NULL;
    closing_finish(&x->remote->closing, &r->op, r->op.state == OP_RUNNING ? SP_OK : SP_CANCELLED,
                   NULL);
    call_fini(&x->call);
    free(x);
}

static void ask(struct examining *x, const char *path, void (*on_done)(struct op *))
{
    if (x->request->op.state != OP_RUNNING) {
        end(x);
        return;
    }
    remote_call_init(x->remote, &x->call, "GET", path);
    x->call.http.response_max = REMOTE_LIST_MAX;
    remote_call_start(&x->call, x->remote->get_ns, on_done);
}

static void on_capabilities(struct op *op)
{
    struct examining *x = container_of(op, struct examining, call.op);
    struct err err;
    enum remote_word word = remote_call_word(&x->call, &err);
    struct json_doc *doc = word == REMOTE_DONE ? remote_call_json(&x->call, &err) : NULL;
    const struct json *value;
    const char *key;
    struct buf text;

    buf_init(&text, 240);
    for (size_t i = 0; doc != NULL && json_member(json_root(doc), i, &key, &value); i++)
        if (json_is_bool(value) && json_bool(value))
            buf_printf(&text, "%s%.40s", text.len > 0 ? ", " : "", key);
    if (doc != NULL)
        backend_report(x->request, BACKEND_FINDING_OK, "capabilities", "%.240s",
                       text.len > 0 ? buf_str(&text) : "none beyond boxes");
    else if (word == REMOTE_MISSING)
        backend_report(x->request, BACKEND_FINDING_OK, "capabilities",
                       "an older provisioner, which reports none");
    else
        backend_report(x->request, BACKEND_FINDING_WARN, "capabilities", "%.240s", err.msg);
    buf_fini(&text);
    (void) json_doc_free(doc);
    end(x);
}

static void on_list(struct op *op)
{
    struct examining *x = container_of(op, struct examining, call.op);
    struct err err;
    enum remote_word word = remote_call_word(&x->call, &err);
    struct json_doc *doc = word == REMOTE_DONE ? remote_call_json(&x->call, &err) : NULL;
    const struct json *boxes = doc != NULL ? json_get(json_root(doc), "sandboxes") : NULL;
    bool is_list = json_is_arr(boxes);
    struct json_walk walk = {.passed = 0};
    size_t ours = 0;

    for (const struct json *v = json_next(boxes, &walk); v != NULL; v = json_next(boxes, &walk)) {
        const char *name = json_str(json_get(v, "sandbox_id"));
        uint64_t id;

        ours += name != NULL && remote_name_is_ours(x->remote, name, &id) ? 1 : 0;
    }
    if (is_list)
        backend_report(x->request, BACKEND_FINDING_OK, "key",
                       "accepted; it has %zu boxes, %zu of them under ids of this daemon",
                       json_len(boxes), ours);
    else
        backend_report(x->request, BACKEND_FINDING_FAIL, "key", "%.240s",
                       word == REMOTE_DONE ? "its list is malformed: is this a provisioner?"
                                           : err.msg);
    (void) json_doc_free(doc);
    if (is_list)
        ask(x, "/api/capabilities", on_capabilities);
    else
        end(x);
}

static bool is_near(const char *url)
{
    return strncmp(url, "http://127.", 11) == 0 || strncmp(url, "http://[::1]", 12) == 0 ||
           strncmp(url, "http://localhost", 16) == 0;
}

static void on_health(struct op *op)
{
    struct examining *x = container_of(op, struct examining, call.op);
    const struct remote *r = x->remote;
    struct err err;
    enum remote_word word = remote_call_word(&x->call, &err);

    if (word != REMOTE_DONE && word != REMOTE_MISSING) {
        backend_report(x->request, BACKEND_FINDING_FAIL, "provisioner", "%.280s", err.msg);
        end(x);
        return;
    }
    backend_report(x->request, BACKEND_FINDING_OK, "provisioner", "%.240s answers", r->url);
    if (str_is_empty(r->key))
        backend_report(x->request, BACKEND_FINDING_WARN, "key", "none is configured");
    else if (strncmp(r->url, "http://", 7) == 0 && !is_near(r->url))
        backend_report(x->request, BACKEND_FINDING_WARN, "key",
                       "it is sent unencrypted: use https, or a network that nobody else reads");
    ask(x, "/api/sandboxes", on_list);
}

static void on_cancel(struct op *op)
{
    struct examining *x = container_of(op, struct backend_exam, op)->priv;

    op_cancel(&x->call.op);
}

void remote_examine(struct backend *backend, struct backend_exam *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *))
{
    struct remote *remote = remote_of(backend);
    struct examining *x = xcalloc(1, sizeof(*x));

    op_begin(&r->op, &remote->loop->rt, &remote->closing.ops, deadline_ns, on_cancel, on_done);
    x->remote = remote;
    x->request = r;
    r->priv = x;
    ask(x, "/health", on_health);
}
