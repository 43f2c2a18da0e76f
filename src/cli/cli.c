/* cli.c - arguments to a command, a command to an exit code. */
#include "cli/cli.h"

#include <string.h>

#include "base/str.h"
#include "sandpool/version.h"

static int run(struct cli *c)
{
    int code;

    if (cli_flag(&c->args, "version")) {
        (void) fprintf(c->out, "sandpool %s\n", SANDPOOL_VERSION);
        return CLI_OK;
    }
    if (cli_flag(&c->args, "help")) {
        if (c->args.command != NULL)
            cli_print_command_help(c->args.command, c->out);
        else
            cli_print_help(c->out);
        return CLI_OK;
    }
    c->client = sp_client_new(cli_option(&c->args, "socket"));
    code = c->args.command->run(c);
    sp_client_free(c->client);
    return code;
}

int cli_main(int argc, const char *const *argv, FILE *out, FILE *err)
{
    struct cli c = {.out = out, .err = err};
    struct err why;
    int code;

    if (argc < 2) {
        cli_print_help(err);
        return CLI_USAGE;
    }
    if (!cli_parse(argc, argv, &c.args, &why)) {
        const char *name = c.args.command != NULL ? c.args.command->name : NULL;

        (void) cli_fail_usage(&c, "%s; try 'sandpool %s%s--help'", why.msg,
                              name != NULL ? name : "", name != NULL ? " " : "");
        /* What a run exits with is its command's, but for the codes that are set apart. */
        return c.args.command != NULL && c.args.command->operands_max == CLI_REST ? CLI_RUN_FAILED
                                                                                  : CLI_USAGE;
    }
    code = run(&c);
    if (fflush(out) != 0 && code == CLI_OK) {
        (void) fprintf(err, "sandpool: the output could not be written\n");
        code = CLI_FAILED;
    }
    return code;
}
