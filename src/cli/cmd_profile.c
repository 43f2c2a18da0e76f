/* cmd_profile.c - sandpool profile ls and show: the recipes of boxes. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

static const char *const head[] = {"PROFILE", "BACKEND", "FROM",   "NETWORK", "MEMORY", "CPUS",
                                   "TTL",     "BLANK",   "LEASED", "READY",   "TROUBLE"};

/* "512M"; "-" is no limit. */
static void add_size(struct out_table *t, uint64_t bytes)
{
    static const char units[] = "kMGT";
    unsigned shift = 0;
    char text[32];

    while (bytes > 0 && shift < 40 && (bytes >> shift) % 1024 == 0)
        shift += 10;
    (void) snprintf(text, sizeof(text), "%llu%.1s", (unsigned long long) (bytes >> shift),
                    shift > 0 ? &units[shift / 10 - 1] : "");
    out_cell(t, bytes > 0 ? text : "");
}

static void add_row(struct out_table *t, const struct json *p)
{
    const struct json *limits = json_get(p, "limits");
    const char *from = show_str(p, "image");
    char text[32];

    out_cell(t, show_str(p, "name"));
    out_cell(t, show_str(p, "backend"));
    out_cell(t, str_is_empty(from) ? show_str(p, "rootfs") : from);
    out_cell(t, show_str(p, "network"));
    add_size(t, show_u64(limits, "memory"));
    (void) snprintf(text, sizeof(text), "%g", json_num(json_get(limits, "cpus")));
    out_cell(t, strcmp(text, "0") == 0 ? "" : text);
    text[0] = '\0';
    if (show_u64(p, "ttl_s") > 0)
        duration_print((double) show_u64(p, "ttl_s"), text);
    out_cell(t, text);
    out_cell_u64(t, show_u64(p, "blank"));
    out_cell_u64(t, show_u64(p, "leased"));
    out_cell(t, json_bool(json_get(p, "ready")) ? "yes" : "no");
    out_cell(t, show_str(p, "reason"));
}

static int list(struct cli *c)
{
    struct json_doc *doc;
    struct out_table table;
    const struct json *profiles;
    int code = cli_call(c, "GET", "/v1/profiles", NULL, &doc);

    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        profiles = json_get(json_root(doc), "profiles");
        out_table_init(&table, head, ARRAY_LEN(head));
        for (size_t i = 0; i < json_len(profiles); i++)
            add_row(&table, json_at(profiles, i));
        out_table_print(&table, c->out);
        out_table_fini(&table);
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}

static int show(struct cli *c)
{
    struct json_doc *doc;
    struct buf target;
    int code;

    if (c->args.operand_count < 2)
        return cli_fail_usage(c, "which profile? 'sandpool profile ls' has their names");
    buf_init(&target, 1024);
    buf_puts(&target, "/v1/profiles/");
    cli_escape(&target, c->args.operands[1]);
    code = cli_call(c, "GET", buf_str(&target), NULL, &doc);
    buf_fini(&target);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c))
        show_members(json_root(doc), c->out);
    (void) json_doc_free(doc);
    return CLI_OK;
}

int cmd_profile(struct cli *c)
{
    const char *what = c->args.operands[0];

    if (strcmp(what, "show") == 0)
        return show(c);
    if (strcmp(what, "ls") != 0)
        return cli_fail_choice(c);
    if (c->args.operand_count > 1)
        return cli_fail_usage(c, "'ls' takes no name: 'show' does");
    return list(c);
}
