/* call.c - one call to the provisioner: its address, the key, a time limit, and what an answer means. The
 * key is in a header only; words of the provisioner that repeat it are not passed on. */
#include <string.h>

#include "base/str.h"
#include "remote/internal.h"

enum { PATH_MAX_LEN = 1024, WORDS_MAX = 140 };

#define BACKOFF_FIRST_NS (50 * NS_PER_MS)
#define BACKOFF_MAX_NS (2 * NS_PER_S)

void remote_call_init(struct remote *r, struct remote_call *c, const char *method, const char *path)
{
    remote_call_fini(c);
    memset(c, 0, sizeof(*c));
    c->remote = r;
    c->method = method;
    c->answer_max = REMOTE_ANSWER_MAX;
    buf_init(&c->path, PATH_MAX_LEN);
    buf_init(&c->url, PATH_MAX_LEN + CONFIG_PATH_MAX);
    buf_init(&c->body, REMOTE_BODY_MAX);
    buf_puts(&c->path, path);
}

void remote_call_fini(struct remote_call *c)
{
    httpc_request_fini(&c->http);
    buf_fini(&c->path);
    buf_fini(&c->url);
    buf_fini(&c->body);
}

void remote_call_put(struct remote_call *c, const char *text)
{
    buf_put_escaped(&c->path, text);
}

void remote_call_name(struct remote *r, struct remote_call *c, const char *method, const char *name,
                      const char *rest)
{
    remote_call_init(r, c, method, "/api/sandboxes/");
    remote_call_put(c, name);
    buf_puts(&c->path, rest);
}

static void on_http_done(struct op *op)
{
    struct remote_call *c = container_of(op, struct remote_call, http.op);

    if (op->result == SP_CONNECT_FAILED)
        c->remote->has_no_presence = false; /* what comes back may be a newer one */
    remote_finish(c->remote, &c->op, op->result, &op->err);
}

static void on_cancel(struct op *op)
{
    op_cancel(&container_of(op, struct remote_call, op)->http.op);
}

void remote_call_start(struct remote_call *c, uint64_t limit_ns, void (*on_done)(struct op *))
{
    struct remote *r = c->remote;
    size_t count = 0;

    assert(!buf_failed(&c->path)); /* the longest names fit many times over */
    rt_refresh(&r->loop->rt);
    op_begin(&c->op, &r->loop->rt, &r->inner, rt_after(rt_now(&r->loop->rt), limit_ns), on_cancel,
             on_done);
    buf_printf(&c->url, "%s%s", r->url, buf_str(&c->path));
    if (!str_is_empty(r->key_header))
        c->headers[count++] = r->key_header;
    if (c->body.len > 0)
        c->headers[count++] = "Content-Type: application/json";
    c->http.method = c->method;
    c->http.url = buf_str(&c->url);
    c->http.headers = count > 0 ? c->headers : NULL;
    c->http.body = c->body.data;
    c->http.body_len = c->body.len;
    c->http.response_max = c->answer_max;
    c->http.want_fresh = strcmp(c->method, "GET") != 0; /* never sent twice behind our back */
    httpc_start(r->http, &c->http, RT_NEVER, on_http_done);
}

/* --- what it means --- */

/* One line of what was said: {"detail": "..."}, {"detail": [{"msg": "..."}]}, or the text itself. */
static void take_words(const struct remote_call *c, char ret[WORDS_MAX + 1])
{
    const struct buf *body = &c->http.response;
    struct json_doc *doc = json_parse(buf_str(body), body->len, REMOTE_ANSWER_MAX, NULL);
    const struct json *detail = doc != NULL ? json_get(json_root(doc), "detail") : NULL;
    const char *text = json_str(detail);

    if (text == NULL && json_is_arr(detail))
        text = json_str(json_get(json_at(detail, 0), "msg"));
    if (text == NULL)
        text = buf_str(body);
    if (!str_is_empty(c->remote->key) && strstr(text, c->remote->key) != NULL)
        text = "(what it said repeats the key)";
    str_copy_cut(ret, WORDS_MAX + 1, text);
    (void) json_doc_free(doc);
    for (char *s = ret; *s != '\0'; s++)
        if ((unsigned char) *s < ' ' || *s == '\x7f')
            *s = ' ';
}

static enum remote_word word_of_status(int status, const char *words)
{
    if (status >= 200 && status < 300)
        return REMOTE_DONE;
    if (status == 404)
        return REMOTE_MISSING;
    if (status == 408 || status == 425 || status == 429 ||
        (status == 409 && strcasestr(words, "terminating") != NULL))
        return REMOTE_BUSY;
    return status >= 500 ? REMOTE_FAILED : REMOTE_REFUSED;
}

enum remote_word remote_call_word(const struct remote_call *c, struct err *err)
{
    const struct op *op = &c->op;
    int status = c->http.status;
    char words[WORDS_MAX + 1];
    enum remote_word word;

    if (op->result != SP_OK) {
        if (op->result == SP_CANCELLED)
            *err = op->err;
        else
            (void) err_set(err, op->result == SP_TIMEOUT ? SP_TIMEOUT : SP_BACKEND_UNAVAILABLE,
                           "the provisioner at %.100s: %.100s", c->remote->url,
                           op->result == SP_TIMEOUT ? "no answer in time" : op->err.msg);
        return op->result == SP_CONNECT_FAILED ? REMOTE_UNSENT : REMOTE_NO_ANSWER;
    }
    take_words(c, words);
    word = word_of_status(status, words);
    if (status == 401 || status == 403)
        (void) err_set(err, SP_BACKEND_FAILED,
                       "the provisioner refuses the key (%d): check remote.provisioner_api_key",
                       status);
    else if (word != REMOTE_DONE)
        (void) err_set(err, word == REMOTE_MISSING ? SP_NOT_FOUND : SP_BACKEND_FAILED,
                       "the provisioner answered %d: %s", status, words);
    return word;
}

struct json_doc *remote_call_json(const struct remote_call *c, struct err *err)
{
    const struct buf *body = &c->http.response;
    struct json_doc *doc = json_parse(buf_str(body), body->len, c->answer_max, err);

    if (doc == NULL) {
        err->code = SP_PROTOCOL;
        (void) err_wrap(err, "the provisioner's answer");
    }
    return doc;
}

/* --- pauses --- */

static void on_pause_cancel(struct op *op)
{
    op_finish(op, op->cause, NULL);
}

void remote_pause_start(struct remote *r, struct remote_pause *p, void (*on_done)(struct op *))
{
    p->backoff_ns =
        p->backoff_ns == 0 ? BACKOFF_FIRST_NS : MIN_OF(p->backoff_ns * 2, BACKOFF_MAX_NS);
    rt_refresh(&r->loop->rt);
    op_begin(&p->op, &r->loop->rt, &r->pauses, rt_after(rt_now(&r->loop->rt), p->backoff_ns),
             on_pause_cancel, on_done);
}
