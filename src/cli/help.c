/* help.c - help from the table of commands. */
#include <string.h>

#include "cli/cli.h"

static void print_option(const struct cli_option *o, FILE *out)
{
    char left[48];

    (void) snprintf(left, sizeof(left), "%c%c%s --%s%s%s", o->letter != 0 ? '-' : ' ',
                    o->letter != 0 ? o->letter : ' ', o->letter != 0 ? "," : " ", o->name,
                    o->value != NULL ? " " : "", o->value != NULL ? o->value : "");
    (void) fprintf(out, "  %-26s %s", left, o->help);
    if (o->choices != NULL)
        (void) fprintf(out, ": %s", o->choices);
    (void) fputc('\n', out);
}

static void print_options(const char *title, const struct cli_option *table, FILE *out)
{
    if (table[0].name == NULL)
        return;
    (void) fprintf(out, "\n%s:\n", title);
    for (const struct cli_option *o = table; o->name != NULL; o++)
        print_option(o, out);
}

/* Each line indented. */
static void print_lines(const char *text, FILE *out)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");

        (void) fprintf(out, "  %.*s\n", (int) len, text);
        text += len + (text[len] == '\n');
    }
}

const struct cli_exit_text cli_exits[] = {
    {"0", "it was done"},
    {"1", "the call failed"},
    {"2", "wrong arguments; nothing was done"},
    {"3", "the daemon cannot be reached or does not answer"},
    {"4", "no such sandbox, or it is lost"},
    {"5", "busy: try again later"},
    {NULL, NULL},
};

const struct cli_exit_text cli_run_exits[] = {
    {"124", "the command was ended by --timeout"},
    {"125", "sandpool failed: no box, wrong arguments"},
    {"126", "the command cannot be run"},
    {"127", "there is no such command in the box"},
    {"128+n", "the command was ended by signal n; 137 when memory ran out"},
    {"other", "the code of the command"},
    {NULL, NULL},
};

const char cli_times_text[] = "Times are written 500ms, 30s, 5m, 2h, 1d; a bare number is seconds.";
const char cli_id_text[] =
    "ID is a sandbox id, a thread (USER/THREAD for that of another user), or box: and the id of\n"
    "a box that has no owner (see sandpool ls).";

static void print_exits(const struct cli_exit_text *table, int width, FILE *out)
{
    (void) fprintf(out, "\nExit codes:\n");
    for (; table->code != NULL; table++)
        (void) fprintf(out, "  %-*s  %s\n", width, table->code, table->text);
}

void cli_add_usage(const struct cli_command *command, struct buf *out)
{
    buf_printf(out, "sandpool %s", command->name);
    if (command->operands_max == CLI_REST)
        buf_printf(out, " [OPTION]...%s [--] COMMAND [ARG]...",
                   command->operands_min > 1 ? " ID" : "");
    else
        buf_printf(out, "%s%s [OPTION]...", command->operands[0] != '\0' ? " " : "",
                   command->operands);
}

bool cli_takes_id(const struct cli_command *command)
{
    return command->choices != NULL && strcmp(command->choices, "ID") == 0;
}

void cli_print_help(FILE *out)
{
    (void) fprintf(out, "Usage: sandpool COMMAND [OPTION]...\n\n"
                        "Gets sandboxes from sandpoold and manages its pool.\n\nCommands:\n");
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
        (void) fprintf(out, "  %-10s %-10s %s\n", c->name, c->operands, c->summary);
    print_options("Options of every command", cli_common, out);
    (void) fprintf(out, "\n%s\n", cli_times_text);
    print_exits(cli_exits, 1, out);
    (void) fprintf(out, "\nExamples:\n"
                        "  sandpool acquire thread-1\n"
                        "  sandpool ls --state leased\n"
                        "  sandpool help acquire\n");
}

void cli_print_command_help(const struct cli_command *command, FILE *out)
{
    bool has_rest = command->operands_max == CLI_REST;
    struct buf usage;

    buf_init(&usage, 512);
    cli_add_usage(command, &usage);
    (void) fprintf(out, "Usage: %s", buf_str(&usage));
    buf_fini(&usage);
    (void) fprintf(out, "\n\n%c%s.\n", command->summary[0] - 'a' + 'A', command->summary + 1);
    if (command->help != NULL)
        (void) fprintf(out, "%s\n", command->help);
    if (cli_takes_id(command))
        (void) fprintf(out, "%s\n", cli_id_text);
    else if (command->choices != NULL)
        (void) fprintf(out, "%s is one of: %s.\n", command->operands, command->choices);
    print_options("Options", command->options, out);
    print_options("Options of every command", cli_common, out);
    if (has_rest)
        print_exits(cli_run_exits, 5, out);
    else
        print_exits(cli_exits, 1, out);
    (void) fprintf(out, "\nExamples:\n");
    print_lines(command->examples, out);
}
