/* man_cli.c - sandpool(1) and a page for each of its commands, from the table of commands. */
#include <ctype.h>
#include <string.h>

#include "dist/man/pages.h"
#include "dist/man/roff.h"

static void put_term(struct buf *out, const char *term, const char *text)
{
    roff_term(out, term, strlen(term));
    roff_line(out, text, strlen(text));
}

static void put_option(const struct cli_option *o, struct buf *out)
{
    struct buf term;

    buf_init(&term, 256);
    if (o->letter != 0)
        buf_printf(&term, "-%c, ", o->letter);
    buf_printf(&term, "--%s%s%s", o->name, o->value != NULL ? " " : "",
               o->value != NULL ? o->value : "");
    put_term(out, buf_str(&term), o->help);
    buf_fini(&term);
    if (o->choices != NULL) {
        buf_puts(out, "One of: ");
        roff_line(out, o->choices, strlen(o->choices));
    }
}

static void put_options(const struct cli_option *table, const char *title, struct buf *out)
{
    if (table[0].name == NULL)
        return;
    roff_section(out, title);
    for (const struct cli_option *o = table; o->name != NULL; o++)
        put_option(o, out);
}

static void put_exits(const struct cli_exit_text *table, struct buf *out)
{
    roff_section(out, "EXIT STATUS");
    for (; table->code != NULL; table++)
        put_term(out, table->code, table->text);
}

static void put_environment(struct buf *out)
{
    roff_section(out, "ENVIRONMENT");
    put_term(out, "SANDPOOL_SOCKET", "the daemon's socket, where --socket is not given");
}

static void put_lines(const char *text, struct buf *out)
{
    roff_example_begin(out);
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");

        roff_line(out, text, len);
        text += len + (text[len] == '\n');
    }
    roff_example_end(out);
}

void man_cli(struct buf *out)
{
    static const char *const others[] = {"sandpoold(8)", "sandpool.yaml(5)", "sandpool-agent(1)",
                                         NULL};

    roff_page(out, "sandpool", 1, "gets sandboxes from sandpoold and manages its pool");
    roff_section(out, "SYNOPSIS");
    roff_text(out, "sandpool COMMAND [OPTION]...");
    roff_section(out, "DESCRIPTION");
    roff_text(out, "sandpool talks to the daemon sandpoold over its Unix socket: it gets sandboxes "
                   "for threads, runs commands in them, copies files, and shows and manages the "
                   "pool. Each command has a page of its own, like sandpool-acquire(1).");
    roff_section(out, "COMMANDS");
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        struct buf term;

        buf_init(&term, 256);
        buf_printf(&term, "%s %s", c->name, c->operands);
        put_term(out, buf_str(&term), c->summary);
        buf_fini(&term);
    }
    put_options(cli_common, "OPTIONS OF EVERY COMMAND", out);
    roff_paragraph(out, cli_times_text);
    put_environment(out);
    put_exits(cli_exits, out);
    roff_section(out, "EXAMPLES");
    put_lines("sandpool run -- python3 -c 'print(6*7)'\n"
              "sandpool acquire thread-1\n"
              "sandpool exec thread-1 -- python3 -V\n"
              "sandpool ls --state leased\n",
              out);
    roff_see_also(out, others);
}

static void put_synopsis(const struct cli_command *c, struct buf *out)
{
    struct buf line;

    buf_init(&line, 512);
    cli_add_usage(c, &line);
    roff_section(out, "SYNOPSIS");
    roff_text(out, buf_str(&line));
    buf_fini(&line);
}

static void put_description(const struct cli_command *c, struct buf *out)
{
    struct buf first;

    roff_section(out, "DESCRIPTION");
    buf_init(&first, 512);
    buf_printf(&first, "%c%s.", toupper((unsigned char) c->summary[0]), c->summary + 1);
    roff_text(out, buf_str(&first));
    buf_fini(&first);
    if (c->help != NULL)
        roff_paragraph(out, c->help);
    if (cli_takes_id(c))
        roff_paragraph(out, cli_id_text);
}

void man_command(const struct cli_command *command, struct buf *out)
{
    static const char *const others[] = {"sandpool(1)", NULL};
    struct buf name;

    buf_init(&name, 64);
    buf_printf(&name, "sandpool-%s", command->name);
    roff_page(out, buf_str(&name), 1, command->summary);
    buf_fini(&name);
    put_synopsis(command, out);
    put_description(command, out);
    put_options(command->options, "OPTIONS", out);
    put_options(cli_common, "OPTIONS OF EVERY COMMAND", out);
    roff_paragraph(out, cli_times_text);
    put_environment(out);
    put_exits(command->operands_max == CLI_REST ? cli_run_exits : cli_exits, out);
    roff_section(out, "EXAMPLES");
    put_lines(command->examples, out);
    roff_see_also(out, others);
}
