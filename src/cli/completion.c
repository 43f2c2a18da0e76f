/* completion.c - completions for three shells from the table of commands. The copies in
 * src/dist/completions are this output; a test compares. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

/* Ids of sandboxes come from the daemon; silent when there is none. */
#define IDS "sandpool ls --quiet 2>/dev/null"

static void print_names(FILE *out)
{
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
        (void) fprintf(out, "%s%s", c == cli_commands ? "" : " ", c->name);
}

static void print_flags(const struct cli_option *table, FILE *out)
{
    for (const struct cli_option *o = table; o->name != NULL; o++)
        (void) fprintf(out, " --%s", o->name);
}

/* --- bash --- */

static void bash_choices(const struct cli_command *c, FILE *out)
{
    for (const struct cli_option *o = c->options; o->name != NULL; o++) {
        if (o->choices != NULL)
            (void) fprintf(out, "    %s:--%s) words=\"%s\" ;;\n", c->name, o->name, o->choices);
    }
}

static void print_bash(FILE *out)
{
    (void) fprintf(
        out,
        "# bash completion for sandpool; made by 'sandpool completion bash'\n"
        "_sandpool() {\n"
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
        "  local command= words= i\n"
        "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "    case ${COMP_WORDS[i]} in\n"
        "    -s|--socket|--request-timeout) ((i++)) ;;\n"
        "    -*) ;;\n"
        "    *) command=${COMP_WORDS[i]}; break ;;\n"
        "    esac\n"
        "  done\n"
        "  case $command:$prev in\n"
        "    *:-s|*:--socket|doctor:--config) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n");
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
        bash_choices(c, out);
    (void) fprintf(out, "  esac\n"
                        "  if [[ -z $words ]]; then\n"
                        "    case $command in\n"
                        "    '') words='");
    print_names(out);
    print_flags(cli_common, out);
    (void) fprintf(out, "' ;;\n");
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        (void) fprintf(out, "    %s) words='", c->name);
        if (c->run == cmd_help)
            print_names(out);
        else if (c->choices != NULL && !cli_takes_id(c))
            (void) fprintf(out, "%s", c->choices);
        print_flags(c->options, out);
        print_flags(cli_common, out);
        (void) fprintf(out, "'%s ;;\n",
                       cli_takes_id(c) ? "\n      [[ $cur == -* ]] || words+=\" $(" IDS ")\"" : "");
    }
    (void) fprintf(out, "    esac\n"
                        "  fi\n"
                        "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                        "}\n"
                        "complete -F _sandpool sandpool\n");
}

/* --- zsh --- */

/* Text inside single quotes and brackets of _arguments. */
static void zsh_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            (void) fputs("'\\''", out);
        else if (strchr("[]:\\", *text) != NULL)
            (void) fprintf(out, "\\%c", *text);
        else
            (void) fputc(*text, out);
    }
}

static bool is_file(const struct cli_option *o)
{
    return strcmp(o->name, "socket") == 0 || strcmp(o->name, "config") == 0;
}

static void zsh_options(const struct cli_option *table, FILE *out)
{
    for (const struct cli_option *o = table; o->name != NULL; o++) {
        (void) fprintf(out, " \\\n        '%s--%s%s[", o->kind == CLI_LIST ? "*" : "", o->name,
                       o->value != NULL ? "=" : "");
        zsh_text(o->help, out);
        (void) fputc(']', out);
        if (o->choices != NULL)
            (void) fprintf(out, ":%s:(%s)", o->value, o->choices);
        else if (o->value != NULL)
            (void) fprintf(out, ":%s:%s", o->value, is_file(o) ? "_files" : "");
        (void) fputc('\'', out);
    }
}

static void print_zsh(FILE *out)
{
    (void) fprintf(out, "#compdef sandpool\n"
                        "# zsh completion for sandpool; made by 'sandpool completion zsh'\n"
                        "_sandpool_ids() {\n"
                        "  compadd -- ${(f)\"$(" IDS ")\"}\n"
                        "}\n"
                        "_sandpool() {\n"
                        "  local -a commands\n"
                        "  commands=(\n");
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        (void) fprintf(out, "    '%s:", c->name);
        zsh_text(c->summary, out);
        (void) fprintf(out, "'\n");
    }
    (void) fprintf(out, "  )\n"
                        "  if ((CURRENT == 2)); then\n"
                        "    _describe command commands\n"
                        "    return\n"
                        "  fi\n"
                        "  local command=${words[2]}\n"
                        "  shift words\n"
                        "  ((CURRENT--))\n"
                        "  case $command in\n");
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        (void) fprintf(out, "    %s)\n      _arguments", c->name);
        zsh_options(c->options, out);
        zsh_options(cli_common, out);
        if (cli_takes_id(c))
            (void) fprintf(out, " \\\n        '1:ID:_sandpool_ids'");
        else if (c->choices != NULL)
            (void) fprintf(out, " \\\n        '1:%s:(%s)'", c->operands, c->choices);
        else if (c->run == cmd_help)
            (void) fprintf(out, " \\\n        '1:command:(${commands%%%%:*})'");
        (void) fprintf(out, "\n      ;;\n");
    }
    (void) fprintf(out, "  esac\n"
                        "}\n"
                        "if [[ $funcstack[1] == _sandpool ]]; then\n"
                        "  _sandpool \"$@\"\n"
                        "else\n"
                        "  compdef _sandpool sandpool\n"
                        "fi\n");
}

/* --- fish --- */

static void fish_text(const char *text, FILE *out)
{
    (void) fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            (void) fputc('\\', out);
        (void) fputc(*text, out);
    }
    (void) fputc('\'', out);
}

static void fish_options(const char *condition, const struct cli_option *table, FILE *out)
{
    for (const struct cli_option *o = table; o->name != NULL; o++) {
        (void) fprintf(out, "complete -c sandpool%s -l %s", condition, o->name);
        if (o->letter != 0)
            (void) fprintf(out, " -s %c", o->letter);
        if (o->choices != NULL)
            (void) fprintf(out, " -x -a '%s'", o->choices);
        else if (o->value != NULL)
            (void) fprintf(out, is_file(o) ? " -r -F" : " -x");
        (void) fprintf(out, " -d ");
        fish_text(o->help, out);
        (void) fputc('\n', out);
    }
}

static void print_fish(FILE *out)
{
    (void) fprintf(out, "# fish completion for sandpool; made by 'sandpool completion fish'\n"
                        "complete -c sandpool -f\n");
    fish_options("", cli_common, out);
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        char condition[96];

        (void) fprintf(out, "complete -c sandpool -n __fish_use_subcommand -a %s -d ", c->name);
        fish_text(c->summary, out);
        (void) fputc('\n', out);
        (void) snprintf(condition, sizeof(condition), " -n '__fish_seen_subcommand_from %s'",
                        c->name);
        if (cli_takes_id(c))
            (void) fprintf(out, "complete -c sandpool%s -a '(" IDS ")'\n", condition);
        else if (c->choices != NULL)
            (void) fprintf(out, "complete -c sandpool%s -a '%s'\n", condition, c->choices);
        fish_options(condition, c->options, out);
    }
}

bool cli_print_completion(const char *shell, FILE *out)
{
    if (strcmp(shell, "bash") == 0)
        print_bash(out);
    else if (strcmp(shell, "zsh") == 0)
        print_zsh(out);
    else if (strcmp(shell, "fish") == 0)
        print_fish(out);
    else
        return false;
    return true;
}
