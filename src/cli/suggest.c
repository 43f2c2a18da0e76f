/* suggest.c - "did you mean": the nearest name, or the command that other programs' users look for. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

/* Words of docker, kubectl and systemctl, and what does it here. */
static const struct {
    const char *word;
    const char *hint;
} habits[] = {
    {"attach", "shell"},
    {"clone", "fork"},
    {"commit", "snapshot create"},
    {"copy", "cp"},
    {"create", "acquire"},
    {"delete", "destroy"},
    {"describe", "get"},
    {"forward", "port-forward"},
    {"history", "why"},
    {"info", "pool"},
    {"list", "ls"},
    {"new", "acquire"},
    {"remove", "destroy"},
    {"restart", "reload"},
    {"show", "get"},
    {"ssh", "shell"},
    {"start", "acquire"},
    {"stats", "top"},
    {"status", "pool"},
    {"stop", "release"},
    {"terminate", "destroy"},
    {"unpause", "resume"},
    {"watch", "events"},
};

/* The same of options; a command has them if it has the hint. Of several hints it is the first that there is. */
static const struct {
    const char *word;
    const char *hint;
} option_habits[] = {
    {"d", "detach"},     {"dir", "cwd"},
    {"f", "yes"},        {"force", "yes"},
    {"n", "count"},      {"name", "thread"},
    {"o", "json"},       {"output", "json"},
    {"timeout", "wait"}, {"timeout", "request-timeout"},
    {"u", "as"},         {"volume", "mount"},
    {"w", "cwd"},        {"workdir", "cwd"},
};

/* A beginning is as near as can be: "ver" of "version", and "env" of "environment". */
static unsigned distance_of(const char *name, size_t len, const char *word, size_t word_len)
{
    if (len > 1 && len <= word_len && strncmp(word, name, len) == 0)
        return 0;
    if (word_len > 2 && word_len < len && strncmp(word, name, word_len) == 0)
        return 1;
    return str_distance(name, len, word, word_len);
}

/* The nearer of two: this word, or what was found before. */
static const char *nearer(const char *name, size_t len, const char *word, unsigned *best,
                          const char *found)
{
    unsigned d = distance_of(name, len, word, strlen(word));

    if (d >= *best || !str_is_near(d, len))
        return found;
    *best = d;
    return word;
}

void suggest_command(const char *name, struct buf *out)
{
    size_t len = strlen(name);
    const char *found = NULL;
    unsigned best = STR_WORD_MAX;

    for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
        found = nearer(name, len, c->name, &best, found);
    for (size_t i = 0; cli_alias(i) != NULL; i++)
        found = nearer(name, len, cli_alias(i), &best, found);
    for (size_t i = 0; i < ARRAY_LEN(habits); i++) {
        if (nearer(name, len, habits[i].word, &best, NULL) != NULL ||
            strcmp(habits[i].word, name) == 0)
            found = habits[i].hint;
    }
    if (found != NULL)
        buf_printf(out, ", did you mean 'sandpool %s'?", found);
}

/* The nearest of a table; `*best` is the distance of the nearest so far. */
static const char *nearest(const struct cli_option *table, const char *name, size_t len,
                           unsigned *best, const char *found)
{
    for (const struct cli_option *o = table; o->name != NULL; o++)
        found = nearer(name, len, o->name, best, found);
    return found;
}

static bool has_option(const struct cli_option *table, const char *name)
{
    for (; table->name != NULL; table++) {
        if (strcmp(table->name, name) == 0)
            return true;
    }
    return false;
}

static const char *habit_of(const struct cli_command *command, const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(option_habits); i++) {
        const char *hint = option_habits[i].hint;

        if (strlen(option_habits[i].word) == len &&
            strncmp(option_habits[i].word, name, len) == 0 &&
            (has_option(cli_common, hint) ||
             (command != NULL && has_option(command->options, hint))))
            return hint;
    }
    return NULL;
}

void suggest_option(const struct cli_command *command, const char *arg, struct buf *out)
{
    const char *name = arg + strspn(arg, "-");
    size_t len = strcspn(name, "=");
    const char *found = NULL;
    const char *habit = habit_of(command, name, len);
    unsigned best = STR_WORD_MAX;

    if (command != NULL)
        found = nearest(command->options, name, len, &best, found);
    found = nearest(cli_common, name, len, &best, found);
    if (habit != NULL)
        found = habit;
    if (found != NULL)
        buf_printf(out, ", did you mean '--%s'?", found);
}

void suggest_choice(const struct cli_command *command, const char *word, struct buf *out)
{
    size_t len = strlen(word);
    const char *found = NULL;
    size_t found_len = 0;
    unsigned best = STR_WORD_MAX;

    for (const char *at = command->choices; *at != '\0'; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        unsigned d = distance_of(word, len, at, n);

        if (d < best && str_is_near(d, len)) {
            best = d;
            found = at;
            found_len = n;
        }
        at += n;
    }
    if (found != NULL)
        buf_printf(out, ", did you mean '%s %.*s'?", command->name, (int) found_len, found);
}
