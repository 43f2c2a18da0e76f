/* cmd_pause.c - sandpool pause and resume: of the pool, or of one sandbox. */
#include "cli/cli.h"

struct still {
    const char *suffix; /* of both paths */
    const char *box;    /* what is printed of a sandbox, and of the pool */
    const char *pool;
};

static int change_box(struct cli *c, const struct still *s)
{
    struct cli_sandbox_call call = {.method = "POST", .suffix = s->suffix, .body = "{}"};
    int code = cli_call_sandbox(c, &call, NULL);

    if (code == CLI_OK && !cli_wants_json(c)) {
        out_text(c->out, c->args.operands[0]);
        (void) fprintf(c->out, " %s\n", s->box);
    }
    return code;
}

static int change(struct cli *c, const struct still *s)
{
    char target[64];
    int code;

    if (c->args.operand_count > 0)
        return change_box(c, s);
    (void) snprintf(target, sizeof(target), "/v1/pool%s", s->suffix);
    code = cli_call(c, "POST", target, NULL, NULL);
    if (code == CLI_OK && !cli_wants_json(c))
        (void) fprintf(c->out, "%s\n", s->pool);
    return code;
}

int cmd_pause(struct cli *c)
{
    return change(c, &(struct still){"/pause", "stands still until it is needed",
                                     "the pool is paused: no new leases until 'sandpool resume'"});
}

int cmd_resume(struct cli *c)
{
    return change(c, &(struct still){"/resume", "goes on", "the pool serves again"});
}
