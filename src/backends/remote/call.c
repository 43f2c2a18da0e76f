/* call.c - one call to the provisioner: its address, the key, a time limit, and what an answer means. The
 * key is in a header only; words of the provisioner that repeat it are not passed on. */
#include <string.h>

#include "backends/remote/internal.h"
#include "base/str.h"

enum { PATH_MAX_LEN = 1024, WORDS_MAX = 140 };

#define BACKOFF_FIRST_NS (50 * NS_PER_MS)
#define BACKOFF_MAX_NS (2 * NS_PER_S)

void remote_call_init(struct remote *r, struct call *c, const char *method, const char *path)
{
    static const struct call_limits limits = {
        .path = PATH_MAX_LEN, .body = REMOTE_BODY_MAX, .answer = REMOTE_ANSWER_MAX};

    call_init(c, &r->closing, method, &limits);
    buf_puts(&c->path, path);
}

void remote_call_name(struct remote *r, struct call *c, const char *method, const char *name,
                      const char *rest)
{
    remote_call_init(r, c, method, "/api/sandboxes/");
    call_put(c, name);
    buf_puts(&c->path, rest);
}

static void on_answer(struct call *c)
{
    if (c->http.op.result == SP_CONNECT_FAILED)
        remote_of_call(c)->has_no_presence = false; /* what comes back may be a newer one */
}

void remote_call_start(struct call *c, uint64_t limit_ns, void (*on_done)(struct op *))
{
    struct remote *r = remote_of_call(c);

    rt_refresh(&r->loop->rt);
    call_begin(c, rt_after(rt_now(&r->loop->rt), limit_ns), NULL, on_done);
    call_header(c, str_is_empty(r->key_header) ? NULL : r->key_header);
    c->on_answer = on_answer;
    call_send(c, r->http, r->url);
}

/* --- what it means --- */

/* One line of what was said: {"detail": "..."}, {"detail": [{"msg": "..."}]}, or the text itself. */
static void take_words(const struct call *c, char ret[WORDS_MAX + 1])
{
    const struct buf *body = &c->http.response;
    const struct remote *r = remote_of_call(c);
    struct json_doc *doc = json_parse(buf_str(body), body->len, REMOTE_ANSWER_MAX, NULL);
    const struct json *detail = doc != NULL ? json_get(json_root(doc), "detail") : NULL;
    const char *text = json_str(detail);

    if (text == NULL && json_is_arr(detail))
        text = json_str(json_get(json_at(detail, 0), "msg"));
    if (text == NULL)
        text = buf_str(body);
    if (!str_is_empty(r->key) && strstr(text, r->key) != NULL)
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

enum remote_word remote_call_word(const struct call *c, struct err *err)
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
                           "the provisioner at %.100s: %.100s", remote_of_call(c)->url,
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

struct json_doc *remote_call_json(const struct call *c, struct err *err)
{
    const struct buf *body = &c->http.response;
    struct json_doc *doc = json_parse(buf_str(body), body->len, c->http.response_max, err);

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
    op_begin(&p->op, &r->loop->rt, &r->closing.ops, rt_after(rt_now(&r->loop->rt), p->backoff_ns),
             on_pause_cancel, on_done);
}
