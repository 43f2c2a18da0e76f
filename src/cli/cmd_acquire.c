/* cmd_acquire.c - sandpool acquire. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

enum { GRACE_MS = 30 * 1000, LONGEST_WAIT_MS = 3600 * 1000 };

static void put_option(const struct cli *c, struct json_out *o, const char *option,
                       const char *member)
{
    const char *value = cli_option(&c->args, option);

    if (value != NULL)
        json_put_str(o, member, value);
}

static void put_seconds(const struct cli *c, struct json_out *o, const char *option,
                        const char *member)
{
    uint64_t ms;

    if (cli_duration_ms(&c->args, option, &ms))
        json_put_u64(o, member, (ms + 999) / 1000);
}

static void encode(const struct cli *c, struct buf *out)
{
    const char *metadata = cli_option(&c->args, "metadata");
    struct json_out o;
    uint64_t wait_ms;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (c->args.operand_count > 0)
        json_put_str(&o, "thread_id", c->args.operands[0]);
    put_option(c, &o, "user", "user_id");
    put_option(c, &o, "profile", "profile");
    put_option(c, &o, "id", "sandbox_id");
    if (cli_duration_ms(&c->args, "wait", &wait_ms))
        json_put_u64(&o, "wait_ms", wait_ms);
    put_seconds(c, &o, "ttl", "ttl_s");
    put_seconds(c, &o, "idle", "idle_timeout_s");
    if (metadata != NULL)
        json_put_raw(&o, "metadata", metadata);
    json_end(&o);
    json_out_finish(&o, out);
}

static bool is_object(const char *text)
{
    struct json_doc *doc = json_parse(text, strlen(text), 1024 * 1024, NULL);
    bool is_good = json_is_obj(json_root(doc));

    (void) json_doc_free(doc);
    return is_good;
}

/* In single quotes, so that the shell takes it as it is. */
static void print_export(FILE *out, const char *name, const char *value)
{
    (void) fprintf(out, "export %s='", name);
    for (; *value != '\0'; value++) {
        if (*value == '\'')
            (void) fputs("'\\''", out);
        else
            (void) fputc(*value, out);
    }
    (void) fputs("'\n", out);
}

static void print_exports(const struct json *lease, FILE *out)
{
    char generation[24];

    (void) snprintf(generation, sizeof(generation), "%llu",
                    (unsigned long long) show_u64(lease, "generation"));
    print_export(out, "SANDBOX_ID", show_str(lease, "sandbox_id"));
    print_export(out, "SANDBOX_URL", show_str(lease, "sandbox_url"));
    print_export(out, "SANDBOX_TOKEN", show_str(lease, "token"));
    print_export(out, "SANDBOX_GENERATION", generation);
}

static void print_lease(const struct json *lease, FILE *out)
{
    char took[32];

    (void) snprintf(took, sizeof(took), "%.3g ms",
                    json_num(json_get(json_get(lease, "timings_ms"), "total")));
    out_pair(out, "sandbox_id", show_str(lease, "sandbox_id"));
    out_pair(out, "url", show_str(lease, "sandbox_url"));
    out_pair(out, "source", show_str(lease, "source"));
    out_pair(out, "profile", show_str(lease, "profile"));
    out_pair(out, "expires", show_str(lease, "expires_at"));
    out_pair(out, "took", took);
}

int cmd_acquire(struct cli *c)
{
    const char *metadata = cli_option(&c->args, "metadata");
    uint64_t wait_ms = LONGEST_WAIT_MS; /* the daemon's default is not known here */
    struct json_doc *doc;
    struct buf body;
    int code;

    if (metadata != NULL && !is_object(metadata))
        return cli_fail_usage(c, "--metadata must be a JSON object like '{\"task\": 7}'");
    (void) cli_duration_ms(&c->args, "wait", &wait_ms);
    sp_client_set_timeout(c->client, wait_ms + GRACE_MS);
    buf_init(&body, 2 * 1024 * 1024);
    encode(c, &body);
    code = cli_call(c, "POST", "/v1/acquire", buf_str(&body), &doc);
    buf_fini(&body);
    if (code != CLI_OK)
        return code;
    if (cli_flag(&c->args, "export") && !cli_wants_json(c))
        print_exports(json_root(doc), c->out);
    else if (cli_flag(&c->args, "quiet") && !cli_wants_json(c))
        (void) fprintf(c->out, "%s\n", show_str(json_root(doc), "sandbox_id"));
    else if (!cli_wants_json(c))
        print_lease(json_root(doc), c->out);
    (void) json_doc_free(doc);
    return CLI_OK;
}
