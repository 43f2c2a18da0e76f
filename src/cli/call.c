/* call.c - one call to the daemon for a command: the answer printed or parsed, a failure told as
 * one sentence that says what to do, and turned into an exit code. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"

enum { ANSWER_MAX = 64 * 1024 * 1024 };

/* What the daemon's sentence leaves open. */
static const struct {
    int code;
    const char *text;
} hints[] = {
    {SP_NOT_FOUND, "'sandpool ls' shows what there is"},
    {SP_STALE_GENERATION, "'sandpool get' shows the generation it has now"},
    {SP_POOL_EXHAUSTED, "release one, raise pool.max_boxes, or give --wait"},
    {SP_ACQUIRE_TIMEOUT, "'sandpool pool' shows what holds it up; --wait waits longer"},
    {SP_BACKEND_UNAVAILABLE, "'sandpool pool' and 'sandpool doctor' tell more"},
    {SP_DRAINING, "'sandpool resume' ends that"},
    {SP_PAUSED, "'sandpool resume' ends that"},
    {SP_TIMEOUT, "--timeout waits longer"},
    {SP_NO_ROUTE, "the daemon may be of another version, see 'sandpool version'"},
};

int cli_exit_code(const struct sp_failure *f)
{
    if (f->code == SP_CONNECT_FAILED || (f->code == SP_TIMEOUT && f->http_status == 0))
        return CLI_UNREACHABLE;
    if (f->code == SP_NOT_FOUND || f->code == SP_SANDBOX_LOST)
        return CLI_NOT_FOUND;
    if (f->http_status == 429 || f->http_status == 503)
        return CLI_BUSY;
    return CLI_FAILED;
}

int cli_fail(struct cli *c, const struct sp_failure *f)
{
    (void) fprintf(c->err, "sandpool: ");
    out_text(c->err, f->message);
    for (size_t i = 0; i < ARRAY_LEN(hints); i++) {
        if (hints[i].code == f->code)
            (void) fprintf(c->err, "; %s", hints[i].text);
    }
    if (f->retry_after_ms > 0)
        (void) fprintf(c->err, "; try again in %.1f s", (double) f->retry_after_ms / 1000);
    (void) fputc('\n', c->err);
    return cli_exit_code(f);
}

int cli_fail_usage(struct cli *c, const char *fmt, ...)
{
    va_list ap;

    (void) fprintf(c->err, "sandpool: ");
    va_start(ap, fmt);
    (void) vfprintf(c->err, fmt, ap);
    va_end(ap);
    (void) fputc('\n', c->err);
    return CLI_USAGE;
}

bool cli_wants_json(const struct cli *c)
{
    return cli_flag(&c->args, "json");
}

static int fetch(struct cli *c, const char *method, const char *target, const char *body,
                 bool want_print, struct json_doc **ret)
{
    AUTO_FREE char *answer = NULL;
    struct sp_failure failure;
    struct json_doc *doc;
    uint64_t timeout_ms;

    if (cli_duration_ms(&c->args, "timeout", &timeout_ms))
        sp_client_set_timeout(c->client, MAX_OF(timeout_ms, 1U));
    if (sp_call(c->client, method, target, body, &answer, &failure) != SP_OK)
        return cli_fail(c, &failure);
    if (want_print)
        (void) fprintf(c->out, "%s\n", answer);
    doc = json_parse(answer, strlen(answer), ANSWER_MAX, NULL);
    if (!json_is_obj(json_root(doc))) {
        (void) json_doc_free(doc);
        (void) fprintf(c->err, "sandpool: the daemon's answer makes no sense; compare the versions "
                               "with 'sandpool version'\n");
        return CLI_FAILED;
    }
    if (ret != NULL)
        *ret = doc;
    else
        (void) json_doc_free(doc);
    return CLI_OK;
}

int cli_call(struct cli *c, const char *method, const char *target, const char *body,
             struct json_doc **ret)
{
    return fetch(c, method, target, body, cli_wants_json(c), ret);
}

int cli_fetch(struct cli *c, const char *method, const char *target, struct json_doc **ret)
{
    return fetch(c, method, target, NULL, false, ret);
}

void cli_escape(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char) *text;

        if (c < 128 && (isalnum(c) || strchr("-_.:", c) != NULL))
            buf_putc(out, *text);
        else
            buf_printf(out, "%%%02X", (unsigned) c);
    }
}

void cli_sandbox_target(const struct cli *c, struct buf *out, const char *suffix)
{
    buf_puts(out, "/v1/sandboxes/");
    cli_escape(out, c->args.operands[0]);
    buf_puts(out, suffix);
}
