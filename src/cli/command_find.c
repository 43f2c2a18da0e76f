/* command_find.c - a command by its name, or by one that users of other programs try; the options that all have. */
#include <string.h>

#include "base/compiler.h"
#include "cli/cli.h"

const struct cli_option cli_common[] = {
    {"socket", 's', CLI_TEXT, "PATH",
     "the daemon's socket (default: $SANDPOOL_SOCKET, else " SP_DEFAULT_SOCKET ")", NULL},
    {"json", 'j', CLI_FLAG, NULL, "print the daemon's answer as JSON", NULL},
    {"request-timeout", 0, CLI_DURATION, "TIME",
     "how long the daemon may take to answer (default: 60s)", NULL},
    {"help", 'h', CLI_FLAG, NULL, "this text", NULL},
    {"version", 0, CLI_FLAG, NULL, "the version of this program", NULL},
    {NULL, 0, CLI_FLAG, NULL, NULL, NULL},
};

/* Names that users of other programs try. */
static const struct {
    const char *name;
    const char *command;
} aliases[] = {{"inspect", "get"}, {"ps", "ls"}, {"rm", "destroy"}};

const char *cli_alias(size_t i)
{
    return i < ARRAY_LEN(aliases) ? aliases[i].name : NULL;
}

const struct cli_command *cli_find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
        if (strcmp(aliases[i].name, name) == 0)
            name = aliases[i].command;
    }
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0)
            return c;
    }
    return NULL;
}
