/* call.c - one call to the daemon for a command: the answer printed or parsed. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"

enum { ANSWER_MAX = 64 * 1024 * 1024 };

/* A code of the call; *ret only on success. */
static int try_call(struct cli *c, const char *method, const char *target, const char *body,
                    bool want_print, struct json_doc **ret, struct sp_failure *failure)
{
    AUTO_FREE char *answer = NULL;
    struct json_doc *doc;
    uint64_t timeout_ms;
    int r;

    if (cli_duration_ms(&c->args, "request-timeout", &timeout_ms))
        sp_client_set_timeout(c->client, MAX_OF(timeout_ms, 1U));
    r = sp_call(c->client, method, target, body, &answer, failure);
    if (r != SP_OK)
        return r;
    doc = json_parse(answer, strlen(answer), ANSWER_MAX, NULL);
    if (!json_is_obj(json_root(doc))) {
        (void) json_doc_free(doc);
        *failure = (struct sp_failure){.code = SP_PROTOCOL,
                                       .message = "malformed response of the daemon; compare the "
                                                  "versions with 'sandpool version'"};
        return SP_PROTOCOL;
    }
    if (want_print)
        (void) fprintf(c->out, "%s\n", answer);
    if (ret != NULL)
        *ret = doc;
    else
        (void) json_doc_free(doc);
    return SP_OK;
}

int cli_try(struct cli *c, const char *method, const char *target, const char *body,
            struct json_doc **ret, struct sp_failure *failure)
{
    return try_call(c, method, target, body, false, ret, failure);
}

int cli_call(struct cli *c, const char *method, const char *target, const char *body,
             struct json_doc **ret)
{
    struct sp_failure failure;

    if (try_call(c, method, target, body, cli_wants_json(c), ret, &failure) != SP_OK)
        return cli_fail(c, &failure);
    return CLI_OK;
}

int cli_fetch(struct cli *c, const char *method, const char *target, struct json_doc **ret)
{
    struct sp_failure failure;

    if (try_call(c, method, target, NULL, false, ret, &failure) != SP_OK)
        return cli_fail(c, &failure);
    return CLI_OK;
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

void cli_add_filter(const struct cli *c, struct buf *target, const char *option, const char *name)
{
    const char *value = cli_option(&c->args, option);

    if (value == NULL)
        return;
    buf_printf(target, "&%s=", name);
    cli_escape(target, value);
}

/* --- the sandbox that the operand names --- */

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Nothing but an id: a thread that is called like this must be named with its user. */
static bool is_surely_id(const char *name)
{
    uint64_t v;

    return has_prefix(name, "box:") || strchr(name, '/') != NULL || has_prefix(name, "thread:") ||
           str_parse_hex64(name, &v);
}

/* USER/THREAD: no id has a slash. */
static bool is_thread(const char *name)
{
    return strchr(name, '/') != NULL && !has_prefix(name, "thread:");
}

void cli_add_sandbox(const struct cli *c, struct buf *target, const char *name)
{
    const char *value = cli_option(&c->args, "id");

    if (value == NULL)
        return;
    buf_printf(target, "&%s=%s", name, is_thread(value) ? "thread:" : "");
    cli_escape(target, value);
}

/* `user` NULL: the name is an id. */
static void put_path(struct buf *target, const char *name, const char *user)
{
    buf_puts(target, "/v1/sandboxes/");
    if (user != NULL) {
        buf_puts(target, "thread:");
        cli_escape(target, user);
        buf_puts(target, "%2F");
    } else if (is_thread(name)) {
        buf_puts(target, "thread:");
    }
    cli_escape(target, name);
}

static int call_named(struct cli *c, const struct cli_sandbox_call *call, const char *user,
                      bool want_print, struct json_doc **ret, struct sp_failure *failure)
{
    struct buf target;
    int r;

    buf_init(&target, 8192);
    put_path(&target, call->name, user);
    buf_puts(&target, call->suffix);
    r = try_call(c, call->method, buf_str(&target), call->body, want_print, ret, failure);
    buf_fini(&target);
    return r;
}

/* `user`: of --user, may be NULL. */
static int call_sandbox(struct cli *c, const struct cli_sandbox_call *call, const char *user,
                        bool want_print, struct json_doc **ret)
{
    const char *given = user;
    struct sp_failure failure;
    int r = call_named(c, call, user, want_print, ret, &failure);

    if (r == SP_NOT_FOUND && user == NULL && !is_surely_id(call->name)) {
        user = "default";
        r = call_named(c, call, user, want_print, ret, &failure);
    }
    if (r == SP_NOT_FOUND && user != NULL)
        (void) snprintf(failure.message, sizeof(failure.message),
                        "the thread '%.80s' of the user '%.80s' has no sandbox%s", call->name, user,
                        given != NULL ? "" : ", and none has that id");
    return r == SP_OK ? CLI_OK : cli_fail(c, &failure);
}

int cli_call_sandbox(struct cli *c, const struct cli_sandbox_call *call, struct json_doc **ret)
{
    struct cli_sandbox_call named = *call;

    if (named.name == NULL)
        named.name = c->args.operands[0];
    return call_sandbox(c, &named, cli_option(&c->args, "user"), cli_wants_json(c), ret);
}

int cli_resolve(struct cli *c, const char *name, char ret[CLI_ID_MAX])
{
    struct cli_sandbox_call call = {.method = "GET", .name = name, .suffix = ""};
    struct json_doc *doc = NULL;
    int code = call_sandbox(c, &call, NULL, false, &doc);

    if (code != CLI_OK)
        return code;
    str_copy_cut(ret, CLI_ID_MAX, show_str(json_root(doc), "sandbox_id"));
    (void) json_doc_free(doc);
    if (str_is_empty(ret)) {
        struct sp_failure f = {.code = SP_NOT_LEASED,
                               .message = "nobody owns this box: commands run in acquired ones"};

        return cli_fail(c, &f);
    }
    return CLI_OK;
}
