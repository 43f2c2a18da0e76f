/* cmd_token.c - sandpool token: tokens for callers on TCP. A new one is printed alone on stdout, once. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

enum { BODY_MAX = 2048, TARGET_MAX = 512 };

static const char *const head[] = {"TOKEN",   "NAME",    "SCOPES",  "USER",
                                   "PROFILE", "SANDBOX", "EXPIRES", "LAST USED"};

static void cell_scopes(struct out_table *t, const struct json *scopes)
{
    char text[64] = "";
    size_t len = 0;

    for (size_t i = 0; i < json_len(scopes) && len < sizeof(text); i++)
        len += (size_t) snprintf(text + len, sizeof(text) - len, "%s%.16s", i > 0 ? "," : "",
                                 json_str(json_at(scopes, i)));
    out_cell(t, text);
}

static void add_row(struct out_table *t, const struct json *token)
{
    bool is_revoked = json_bool(json_get(token, "revoked"));

    out_cell(t, show_str(token, "token_id"));
    out_cell(t, show_str(token, "name"));
    cell_scopes(t, json_get(token, "scopes"));
    out_cell(t, show_str(token, "user_id"));
    out_cell(t, show_str(token, "profile"));
    out_cell(t, show_str(token, "sandbox_id"));
    out_cell(t, is_revoked ? "revoked" : show_str(token, "expires_at"));
    out_cell(t, show_str(token, "last_used_at"));
}

static int list(struct cli *c)
{
    const struct json *tokens;
    struct out_table table;
    struct json_doc *doc;
    int code = cli_call(c, "GET", "/v1/tokens", NULL, &doc);

    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        struct json_walk walk = {0};
        const struct json *token;

        tokens = json_get(json_root(doc), "tokens");
        out_table_init(&table, head, ARRAY_LEN(head));
        while ((token = json_next(tokens, &walk)) != NULL)
            add_row(&table, token);
        out_table_print(&table, c->out);
        out_table_fini(&table);
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}

static void put_option(struct json_out *o, const struct cli *c, const char *option, const char *key)
{
    if (cli_option(&c->args, option) != NULL)
        json_put_str(o, key, cli_option(&c->args, option));
}

/* "read,use" */
static void put_scopes(struct json_out *o, const char *list)
{
    json_begin_arr(o, "scopes");
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        char name[64];

        str_copy_cut(name, MIN_OF(len + 1, sizeof(name)), list);
        json_put_str(o, NULL, name);
        list += len + (list[len] == ',' ? 1 : 0);
    }
    json_end(o);
}

static int create(struct cli *c)
{
    const char *scopes = cli_option(&c->args, "scope");
    struct json_doc *doc;
    struct json_out o;
    struct buf body;
    uint64_t ms;
    int code;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "name", c->args.operands[1]);
    put_scopes(&o, scopes != NULL ? scopes : "use");
    put_option(&o, c, "user", "user_id");
    put_option(&o, c, "profile", "profile");
    put_option(&o, c, "id", "sandbox_id");
    if (cli_duration_ms(&c->args, "ttl", &ms))
        json_put_u64(&o, "ttl_s", (ms + 999) / 1000);
    json_end(&o);
    buf_init(&body, BODY_MAX);
    json_out_finish(&o, &body);
    code = cli_call(c, "POST", "/v1/tokens", buf_str(&body), &doc);
    buf_fini(&body);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        out_text(c->out, show_str(json_root(doc), "token"));
        (void) fputc('\n', c->out);
        (void) fprintf(c->err, "token %s: it is not shown again; the daemon keeps its hash only\n",
                       show_str(json_root(doc), "token_id"));
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}

static int revoke(struct cli *c)
{
    struct json_doc *doc;
    struct buf target;
    int code;

    buf_init(&target, TARGET_MAX);
    buf_puts(&target, "/v1/tokens/");
    cli_escape(&target, c->args.operands[1]);
    code = cli_call(c, "DELETE", buf_str(&target), NULL, &doc);
    buf_fini(&target);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        uint64_t count = show_u64(json_root(doc), "revoked");

        (void) fprintf(c->out, "%llu token%s revoked\n", (unsigned long long) count,
                       count == 1 ? "" : "s");
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}

int cmd_token(struct cli *c)
{
    const char *what = c->args.operands[0];
    unsigned count = c->args.operand_count;

    if (strcmp(what, "ls") == 0 || strcmp(what, "list") == 0)
        return count == 1 ? list(c) : cli_fail_usage(c, "token ls takes no more arguments");
    if (strcmp(what, "create") == 0)
        return count == 2 ? create(c) : cli_fail_usage(c, "token create needs a NAME");
    if (strcmp(what, "revoke") == 0)
        return count == 2 ? revoke(c) : cli_fail_usage(c, "token revoke needs a TOKEN or a NAME");
    return cli_fail_choice(c);
}
