/* cmd_acquire.c - sandpool acquire. */
#include <stdlib.h>
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

/* "/here:/there", with ":ro" or ":rw" behind it. */
static bool put_mount(struct json_out *o, const char *text)
{
    const char *there = strchr(text, ':');
    const char *how = there != NULL ? strchr(there + 1, ':') : NULL;
    char host[1024];
    char box[1024];

    if (there == NULL || !str_copy_n(host, sizeof(host), text, (size_t) (there - text)) ||
        !str_copy_n(box, sizeof(box), there + 1,
                    how != NULL ? (size_t) (how - there - 1) : strlen(there + 1)) ||
        host[0] != '/' || box[0] != '/')
        return false;
    if (how != NULL && strcmp(how, ":ro") != 0 && strcmp(how, ":rw") != 0)
        return false;
    json_begin_obj(o, NULL);
    json_put_str(o, "host_path", host);
    json_put_str(o, "container_path", box);
    json_put_bool(o, "read_only", how != NULL && strcmp(how, ":ro") == 0);
    json_end(o);
    return true;
}

/* NAME=VALUE; of one that is given twice the last counts. */
static bool put_pair(const struct cli *c, struct json_out *o, const char *option, unsigned index)
{
    const char *text = cli_list(&c->args, option, index);
    const char *equals = strchr(text, '=');
    const char *other;
    char name[512];

    if (equals == NULL || equals == text ||
        !str_copy_n(name, sizeof(name), text, (size_t) (equals - text)))
        return false;
    for (other = cli_list(&c->args, option, ++index); other != NULL;
         other = cli_list(&c->args, option, ++index)) {
        if (strncmp(other, text, strlen(name) + 1) == 0)
            return true;
    }
    json_put_str(o, name, equals + 1);
    return true;
}

static bool is_cpus(const char *text, double *ret)
{
    char *end;

    *ret = strtod(text, &end);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

static void put_limits(const struct cli *c, struct json_out *o)
{
    const char *cpus_text = cli_option(&c->args, "cpus");
    const char *memory = cli_option(&c->args, "memory");
    uint64_t pids = 0;
    double cpus = 0;
    bool has_pids = cli_number(&c->args, "pids", &pids);

    if (cpus_text == NULL && memory == NULL && !has_pids)
        return;
    json_begin_obj(o, "limits");
    if (memory != NULL)
        json_put_str(o, "memory", memory);
    if (cpus_text != NULL && is_cpus(cpus_text, &cpus))
        json_put_num(o, "cpus", cpus);
    if (has_pids)
        json_put_u64(o, "pids", pids);
    json_end(o);
}

/* The first that cannot be read; NULL when all can. */
static const char *put_pairs(const struct cli *c, struct json_out *o, const char *option,
                             const char *member)
{
    const char *v = cli_list(&c->args, option, 0);
    const char *bad = NULL;

    if (v == NULL)
        return NULL;
    json_begin_obj(o, member);
    for (unsigned i = 0; v != NULL; v = cli_list(&c->args, option, ++i))
        bad = bad == NULL && !put_pair(c, o, option, i) ? v : bad;
    json_end(o);
    return bad;
}

/* The first --env, --label, --mount or --cpus that cannot be read; NULL when all can. */
static const char *put_extras(const struct cli *c, struct json_out *o)
{
    const char *cpus_text = cli_option(&c->args, "cpus");
    const char *bad = put_pairs(c, o, "env", "envs");
    const char *bad_label = put_pairs(c, o, "label", "labels");
    const char *v = cli_list(&c->args, "mount", 0);
    double cpus;

    bad = bad != NULL ? bad : bad_label;
    if (v != NULL) {
        json_begin_arr(o, "mounts");
        for (unsigned i = 0; v != NULL; v = cli_list(&c->args, "mount", ++i))
            bad = bad == NULL && !put_mount(o, v) ? v : bad;
        json_end(o);
    }
    put_limits(c, o);
    if (bad == NULL && cpus_text != NULL && !is_cpus(cpus_text, &cpus))
        bad = cpus_text;
    return bad;
}

/* NULL, or the value of an option that cannot be read. */
static const char *encode(const struct cli *c, const char *name, struct buf *out)
{
    const char *metadata = cli_option(&c->args, "metadata");
    const char *bad;
    struct json_out o;
    uint64_t wait_ms;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (c->args.operand_count > 0)
        json_put_str(&o, "thread_id", c->args.operands[0]);
    put_option(c, &o, "user", "user_id");
    put_option(c, &o, "profile", "profile");
    put_option(c, &o, "network", "network");
    put_option(c, &o, "id", "sandbox_id");
    put_option(c, &o, "snapshot", "snapshot_id");
    if (name != NULL)
        json_put_str(&o, "request_id", name);
    if (cli_duration_ms(&c->args, "wait", &wait_ms))
        json_put_u64(&o, "wait_ms", wait_ms);
    put_seconds(c, &o, "ttl", "ttl_s");
    put_seconds(c, &o, "idle", "idle_timeout_s");
    if (metadata != NULL)
        json_put_raw(&o, "metadata", metadata);
    bad = put_extras(c, &o);
    json_end(&o);
    json_out_finish(&o, out);
    return bad;
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
    char end[SHOW_END_MAX];
    double ms = json_num(json_get(json_get(lease, "timings_ms"), "total"));

    (void) snprintf(took, sizeof(took), ms < 100 ? "%.3g ms" : "%.0f ms", ms);
    out_pair(out, "sandbox_id", show_str(lease, "sandbox_id"));
    out_pair(out, "url", show_str(lease, "sandbox_url"));
    out_pair(out, "source", show_str(lease, "source"));
    out_pair(out, "profile", show_str(lease, "profile"));
    out_pair(out, "expires", show_str(lease, "expires_at"));
    if (json_get(lease, "ends_by") != NULL) /* else the daemon is an older one */
        out_pair(out, "ends in", show_end(lease, end));
    out_pair(out, "took", took);
}

int cmd_acquire(struct cli *c)
{
    const char *metadata = cli_option(&c->args, "metadata");
    uint64_t wait_ms = LONGEST_WAIT_MS; /* the daemon's default is not known here */
    struct json_doc *doc;
    const char *name;
    const char *bad;
    struct buf body;
    int progress;
    int code;

    if (metadata != NULL && !is_object(metadata))
        return cli_fail_usage(c, "--metadata must be a JSON object like '{\"task\": 7}'");
    (void) cli_duration_ms(&c->args, "wait", &wait_ms);
    sp_client_set_timeout(c->client, wait_ms + GRACE_MS);
    buf_init(&body, 2 * 1024 * 1024);
    name = cli_progress_name(c, c->args.operand_count > 0 ? c->args.operands[0] : NULL,
                             cli_option(&c->args, "id"));
    bad = encode(c, name, &body);
    if (bad != NULL) {
        buf_fini(&body);
        return cli_fail_usage(c,
                              "'%.200s' cannot be read: --env is NAME=VALUE, --mount is "
                              "/here:/there[:ro], --cpus is a number",
                              bad);
    }
    progress = cli_progress_start(
        c, &(struct sp_acquire){
               .thread_id = c->args.operand_count > 0 ? c->args.operands[0] : NULL,
               .user_id = cli_option(&c->args, "user"),
               .sandbox_id = cli_option(&c->args, "id"),
               .profile = cli_option(&c->args, "profile"),
               .request_id = name,
           });
    code = cli_call(c, "POST", "/v1/acquire", buf_str(&body), &doc);
    cli_progress_stop(c, progress);
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
