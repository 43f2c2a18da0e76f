/* command.c - one POST to the agent of a box, answered when the command has ended. The agent ends the command when
 * its time is over, or when we hang up. */
#include "box/command.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

#define GRACE_NS \
    (10 * NS_PER_S) /* until what the command started is dead, and the answer is here */

enum {
    OUTPUT_MAX = 4096,
    BODY_MAX = 16 * 1024,
    ANSWER_MAX = 128 * 1024, /* two streams, in which each byte may be escaped */
    REASON_TAIL_MAX = 110,   /* of the output in a message */
};

static void finish(struct box_command *c, int result, const struct err *err)
{
    httpc_request_fini(&c->request);
    buf_fini(&c->body);
    op_finish(&c->op, result, err);
}

/* The last whole characters that fit, in one line. */
static void copy_tail(const char *text, char *dst, size_t cap)
{
    size_t len = strlen(text);
    size_t at = 0;

    while (len > 0 && (unsigned char) text[len - 1] <= ' ')
        len--;
    if (len > cap - 1)
        at = len - (cap - 1);
    while (at > 0 && at < len && ((unsigned char) text[at] & 0xc0) == 0x80)
        at++;
    for (; at < len; at++)
        *dst++ = (unsigned char) text[at] < ' ' || text[at] == 0x7f ? ' ' : text[at];
    *dst = '\0';
}

static const char *text_of(const struct json *root, const char *key)
{
    const char *text = json_str(json_get(root, key));

    return text != NULL ? text : "";
}

static void describe(const struct json *root, struct buf *out)
{
    const char *outcome = text_of(root, "outcome");
    uint64_t code;

    if (strcmp(outcome, "exited") == 0 && json_u64(json_get(root, "exit_code"), &code))
        buf_printf(out, "exit code %llu", (unsigned long long) code);
    else if (strcmp(outcome, "signalled") == 0)
        buf_printf(out, "ended by %.16s", text_of(root, "signal"));
    else if (strcmp(outcome, "timed_out") == 0)
        buf_puts(out, "it took too long");
    else if (strcmp(outcome, "oom") == 0)
        buf_puts(out, "the box's memory ran out");
    else
        buf_puts(out, "it was ended");
}

static bool has_succeeded(const struct json *root)
{
    uint64_t code = 1;

    return strcmp(text_of(root, "outcome"), "exited") == 0 &&
           json_u64(json_get(root, "exit_code"), &code) && code == 0;
}

static int read_end(struct box_command *c, const struct json *root, struct err *err)
{
    char tail[REASON_TAIL_MAX + 1];
    struct buf how;
    int r;

    if (has_succeeded(root))
        return SP_OK;
    copy_tail(text_of(root, "stderr"), c->tail, sizeof(c->tail));
    if (str_is_empty(c->tail))
        copy_tail(text_of(root, "stdout"), c->tail, sizeof(c->tail));
    copy_tail(c->tail, tail, sizeof(tail));
    buf_init(&how, 64);
    describe(root, &how);
    r = err_set(err, SP_BACKEND_FAILED, "%s%s%s", buf_str(&how), str_is_empty(tail) ? "" : ": ",
                tail);
    buf_fini(&how);
    return r;
}

/* An error of the agent, like an unknown user, has a message. */
static int read_answer(struct box_command *c, struct err *err)
{
    const struct httpc_request *r = &c->request;
    struct json_doc *doc = json_parse(buf_str(&r->response), r->response.len, ANSWER_MAX, NULL);
    const struct json *root = doc != NULL ? json_root(doc) : NULL;
    const char *message = text_of(json_get(root, "error"), "message");
    int code;

    if (r->status == 200 && json_get(root, "outcome") != NULL)
        code = read_end(c, root, err);
    else
        code = err_set(err, SP_BACKEND_FAILED, "the agent answered %d%s%.120s", r->status,
                       str_is_empty(message) ? "" : ": ", message);
    (void) json_doc_free(doc);
    return code;
}

static void on_answer(struct op *op)
{
    struct box_command *c = container_of(op, struct box_command, request.op);
    struct err err = op->err;
    int r = op->result;

    if (r == SP_OK)
        r = read_answer(c, &err);
    else if (r == SP_CANCELLED && c->op.state == OP_CANCELING)
        r = SP_CANCELLED;
    else
        r = err_set(&err, SP_BACKEND_FAILED, "%.150s", op->err.msg);
    finish(c, r, &err);
}

static void on_cancel(struct op *op)
{
    struct box_command *c = container_of(op, struct box_command, op);

    if (!op_is_idle(&c->request.op)) /* always, until finish() */
        op_cancel(&c->request.op);
}

static void write_body(struct box_command *c)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "command", c->command);
    if (c->is_root)
        json_put_str(&o, "user", "root");
    json_put_u64(&o, "timeout_s", c->timeout_s);
    json_put_u64(&o, "max_output", OUTPUT_MAX);
    json_put_bool(&o, "kill_on_disconnect", true);
    json_end(&o);
    buf_init(&c->body, BODY_MAX);
    json_out_finish(&o, &c->body);
}

void box_command_start(struct httpc *http, struct rt *rt, struct box_command *c, struct list *owner,
                       void (*on_done)(struct op *))
{
    op_begin(&c->op, rt, owner, RT_NEVER, on_cancel, on_done);
    c->tail[0] = '\0';
    (void) snprintf(c->target, sizeof(c->target), "%s/v1/agent/exec", c->url);
    (void) snprintf(c->authorization, sizeof(c->authorization), "Authorization: Bearer %s",
                    c->token);
    c->headers[0] = "Content-Type: application/json";
    c->headers[1] = str_is_empty(c->token) ? NULL : c->authorization;
    c->headers[2] = NULL;
    write_body(c);
    c->request = (struct httpc_request){
        .method = "POST",
        .url = c->target,
        .headers = c->headers,
        .body = buf_str(&c->body),
        .body_len = c->body.len,
        .response_max = ANSWER_MAX,
        .want_fresh = true, /* it is run once */
    };
    httpc_start(http, &c->request, rt_after(rt_now(rt), c->timeout_s * NS_PER_S + GRACE_NS),
                on_answer);
}
