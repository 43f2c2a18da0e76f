/* cmd_pause.c - sandpool pause and resume: of the pool, of one profile, or of one sandbox. */
#include <string.h>

#include "cli/cli.h"

static int post_mode(struct cli *c, const char *suffix, struct json_doc **ret)
{
    const char *profile = cli_option(&c->args, "profile");
    bool is_resume = strcmp(suffix, "/resume") == 0;
    struct json_out o;
    struct buf body;
    char target[64];
    int code;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (profile != NULL)
        json_put_str(&o, "profile", profile);
    if (!is_resume && cli_option(&c->args, "message") != NULL)
        json_put_str(&o, "message", cli_option(&c->args, "message"));
    if (strcmp(suffix, "/drain") == 0 && cli_flag(&c->args, "evict-parked"))
        json_put_bool(&o, "evict_parked", true);
    json_end(&o);
    buf_init(&body, 4096);
    json_out_finish(&o, &body);
    (void) snprintf(target, sizeof(target), "/v1/pool%s", suffix);
    code = cli_call(c, "POST", target, buf_str(&body), ret);
    buf_fini(&body);
    return code;
}

/* Also those that were set before: who resumes the pool wants to know what still does not serve. */
static void print_profiles(const struct json *profiles, FILE *out)
{
    for (size_t i = 0; i < json_len(profiles); i++) {
        const struct json *p = json_at(profiles, i);

        (void) fprintf(out,
                       "profile %s is %s: no new leases until 'sandpool resume --profile %s'\n",
                       show_str(p, "name"), show_str(p, "mode"), show_str(p, "name"));
    }
}

int cli_set_mode(struct cli *c, const char *suffix, const char *text)
{
    const char *profile = cli_option(&c->args, "profile");
    struct json_doc *doc;
    int code = post_mode(c, suffix, &doc);

    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        if (profile == NULL)
            (void) fprintf(c->out, "%s\n", text);
        else if (strcmp(suffix, "/resume") == 0)
            (void) fprintf(c->out, "profile %s serves again\n", profile);
        print_profiles(json_get(json_root(doc), "profiles"), c->out);
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}

static int change_box(struct cli *c, const char *suffix, const char *text)
{
    struct cli_sandbox_call call = {.method = "POST", .suffix = suffix, .body = "{}"};
    int code;

    if (cli_option(&c->args, "profile") != NULL)
        return cli_fail_usage(c, "either one sandbox or --profile, not both");
    code = cli_call_sandbox(c, &call, NULL);
    if (code == CLI_OK && !cli_wants_json(c)) {
        out_text(c->out, c->args.operands[0]);
        (void) fprintf(c->out, " %s\n", text);
    }
    return code;
}

int cmd_pause(struct cli *c)
{
    if (c->args.operand_count > 0)
        return change_box(c, "/pause", "stands still until it is needed");
    return cli_set_mode(c, "/pause", "the pool is paused: no new leases until 'sandpool resume'");
}

int cmd_resume(struct cli *c)
{
    if (c->args.operand_count > 0)
        return change_box(c, "/resume", "goes on");
    return cli_set_mode(c, "/resume", "the pool serves again");
}
