/* cmd_help.c - sandpool help. */
#include "cli/cli.h"

static int fail_unknown(struct cli *c, const char *name)
{
    struct buf hint;
    int code;

    buf_init(&hint, 512);
    suggest_command(name, &hint);
    code = cli_fail_usage(c, "unknown command '%.64s'%s; 'sandpool help' lists them", name,
                          buf_str(&hint));
    buf_fini(&hint);
    return code;
}

int cmd_help(struct cli *c)
{
    const struct cli_command *command;

    if (c->args.operand_count == 0) {
        cli_print_help(c->out);
        return CLI_OK;
    }
    command = cli_find_command(c->args.operands[0]);
    if (command == NULL)
        return fail_unknown(c, c->args.operands[0]);
    cli_print_command_help(command, c->out);
    return CLI_OK;
}
