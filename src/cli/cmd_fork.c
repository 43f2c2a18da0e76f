/* cmd_fork.c - sandpool fork. */
#include "base/str.h"
#include "cli/cli.h"

enum { BODY_MAX = 64 * 1024, GRACE_MS = 10 * 60 * 1000 /* a large disk is copied */ };

static void put_threads(const struct cli *c, struct json_out *o)
{
    const char *thread = cli_list(&c->args, "thread", 0);

    if (thread == NULL)
        return;
    json_begin_arr(o, "threads");
    for (unsigned i = 1; thread != NULL; i++) {
        json_put_str(o, NULL, thread);
        thread = cli_list(&c->args, "thread", i);
    }
    json_end(o);
}

static void encode(const struct cli *c, struct buf *out)
{
    struct json_out o;
    uint64_t v;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (cli_number(&c->args, "count", &v))
        json_put_u64(&o, "count", v);
    put_threads(c, &o);
    if (cli_duration_ms(&c->args, "wait", &v))
        json_put_u64(&o, "wait_ms", v);
    if (cli_duration_ms(&c->args, "ttl", &v))
        json_put_u64(&o, "ttl_s", (v + 999) / 1000);
    json_end(&o);
    json_out_finish(&o, out);
}

/* A line for each; what could not be made is on c->err. */
static int print(struct cli *c, const struct json *boxes)
{
    int code = CLI_OK;

    for (size_t i = 0; i < json_len(boxes); i++) {
        const struct json *box = json_at(boxes, i);
        const struct json *error = json_get(box, "error");

        if (error != NULL) {
            code = CLI_FAILED;
            (void) fputs("sandpool: ", c->err);
            out_text(c->err, show_str(error, "message"));
            (void) fputc('\n', c->err);
        } else if (!cli_wants_json(c)) {
            (void) fprintf(c->out, "%s\n", show_str(box, "sandbox_id"));
        }
    }
    return code;
}

int cmd_fork(struct cli *c)
{
    struct cli_sandbox_call call = {.method = "POST", .suffix = "/fork"};
    struct json_doc *doc;
    uint64_t wait_ms = 0;
    struct buf body;
    int code;

    (void) cli_duration_ms(&c->args, "wait", &wait_ms);
    sp_client_set_timeout(c->client, wait_ms + GRACE_MS);
    buf_init(&body, BODY_MAX);
    encode(c, &body);
    call.body = buf_str(&body);
    code = cli_call_sandbox(c, &call, &doc);
    buf_fini(&body);
    if (code != CLI_OK)
        return code;
    code = print(c, json_get(json_root(doc), "sandboxes"));
    (void) json_doc_free(doc);
    return code;
}
