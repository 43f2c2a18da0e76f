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

static void print_exit_codes(FILE *out)
{
    (void) fprintf(out, "\nExit codes:\n"
                        "  0  it was done\n"
                        "  1  the call failed\n"
                        "  2  wrong arguments; nothing was done\n"
                        "  3  the daemon cannot be reached or does not answer\n"
                        "  4  no such sandbox, or it is lost\n"
                        "  5  busy: try again later\n");
}

static void print_run_exit_codes(FILE *out)
{
    (void) fprintf(out, "\nExit codes:\n"
                        "  124    the command was ended by --timeout\n"
                        "  125    sandpool failed: no box, wrong arguments\n"
                        "  126    the command cannot be run\n"
                        "  127    there is no such command in the box\n"
                        "  128+n  the command was ended by signal n; 137 when memory ran out\n"
                        "  other  the code of the command\n");
}

void cli_print_help(FILE *out)
{
    (void) fprintf(out, "Usage: sandpool COMMAND [OPTION]...\n\n"
                        "Gets sandboxes from sandpoold and manages its pool.\n\nCommands:\n");
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
        (void) fprintf(out, "  %-10s %-10s %s\n", c->name, c->operands, c->summary);
    print_options("Options of every command", cli_common, out);
    (void) fprintf(out, "\nTimes are written 500ms, 30s, 5m, 2h, 1d; a bare number is seconds.\n");
    print_exit_codes(out);
    (void) fprintf(out, "\nExamples:\n"
                        "  sandpool acquire thread-1\n"
                        "  sandpool ls --state leased\n"
                        "  sandpool help acquire\n");
}

void cli_print_command_help(const struct cli_command *command, FILE *out)
{
    bool has_rest = command->operands_max == CLI_REST;

    if (has_rest)
        (void) fprintf(out, "Usage: sandpool %s [OPTION]...%s [--] COMMAND [ARG]...", command->name,
                       command->operands_min > 1 ? " ID" : "");
    else
        (void) fprintf(out, "Usage: sandpool %s%s%s [OPTION]...", command->name,
                       command->operands[0] != '\0' ? " " : "", command->operands);
    (void) fprintf(out, "\n\n%c%s.\n", command->summary[0] - 'a' + 'A', command->summary + 1);
    if (command->help != NULL)
        (void) fprintf(out, "%s\n", command->help);
    if (command->choices != NULL && strcmp(command->choices, "ID") == 0)
        (void) fprintf(
            out,
            "ID is a sandbox id, a thread (USER/THREAD for that of another user), or box: and the id of\n"
            "a box that has no owner (see sandpool ls).\n");
    else if (command->choices != NULL)
        (void) fprintf(out, "%s is one of: %s.\n", command->operands, command->choices);
    print_options("Options", command->options, out);
    print_options("Options of every command", cli_common, out);
    if (has_rest)
        print_run_exit_codes(out);
    else
        print_exit_codes(out);
    (void) fprintf(out, "\nExamples:\n");
    print_lines(command->examples, out);
}
