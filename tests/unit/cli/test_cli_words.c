/* One word and one letter of the command line mean one thing with every command. */
#include <string.h>

#include "cli/cli.h"
#include "tests/lib/unit.h"

/* What each option means, wherever it stands: a new one, or an old one with another letter or value, has to be entered here. */
static const struct meaning {
    const char *name;
    char letter;
    const char *value; /* NULL: a flag */
    const char *help;  /* part of each help; NULL: it says all in one */
} meanings[] = {
    {"alive", 'a', NULL, "alive"},
    {"all", 0, NULL, "sandboxes"},
    {"any-base", 0, NULL, "another base"},
    {"as", 0, "USER", "user in the box"},
    {"box", 0, "BOX", "box_id"},
    {"by", 0, "WHAT", "add up"},
    {"config", 'c', "FILE", NULL},
    {"count", 0, "N", "how many"},
    {"cpus", 0, "N", "processors"},
    {"csv", 0, NULL, "table"},
    {"cursor", 0, "CURSOR", "next page"},
    {"cwd", 'C', "DIR", "directory in the box"},
    {"destroy", 0, NULL, "destroy"},
    {"detach", 'd', NULL, "do not wait"},
    {"dry-run", 0, NULL, "destroy nothing"},
    {"env", 'e', "NAME=VALUE", "set a variable"},
    {"event", 0, "KIND", "kind of event"},
    {"evict-parked", 0, NULL, "destroy"},
    {"export", 0, NULL, "exports"},
    {"follow", 'f', NULL, "from now on"},
    {"for", 0, "TIME", "how long"},
    {"format", 0, "FORMAT", "export"},
    {"generation", 'g', "N", "still bound to this box"},
    {"help", 'h', NULL, NULL},
    {"id", 0, "ID", "this sandbox"},
    {"idle", 0, "TIME", "idle"},
    {"idle-for", 0, "TIME", "idle so long"},
    {"interactive", 'i', NULL, "standard input"},
    {"interval", 0, "TIME", "this often"},
    {"intervals", 0, NULL, "interval"},
    {"json", 'j', NULL, "JSON"},
    {"keep", 0, NULL, "do not release"},
    {"label", 0, "NAME=VALUE", "this label"},
    {"leaking", 0, NULL, "leak_after_s"},
    {"leased-for", 0, "TIME", "leases"},
    {"limit", 'n', "N", "this many"},
    {"memory", 0, "SIZE", "memory"},
    {"message", 'm', "TEXT", "refused read"},
    {"metadata", 0, "JSON", "object"},
    {"mount", 0, "/HERE:/THERE[:ro]", "mount"},
    {"name", 0, "NAME", "a name for people"},
    {"network", 0, "KIND", "network"},
    {"no-follow", 0, NULL, "so far"},
    {"no-stdin", 0, NULL, "standard input"},
    {"once", 0, NULL, "once"},
    {"pids", 0, "N", "processes"},
    {"principal", 0, "PRINCIPAL", "caller"},
    {"profile", 'p', "NAME", "profile"},
    {"quick", 0, NULL, "do not wait"},
    {"quiet", 'q', NULL, NULL},
    {"request-timeout", 0, "TIME", "the daemon may take"},
    {"scope", 0, "SCOPES", "create"},
    {"signal", 0, "NAME", "signal"},
    {"since", 0, "TIME", NULL},
    {"snapshot", 0, "SNAPSHOT", "this snapshot"},
    {"socket", 's', "PATH", "socket"},
    {"sort", 0, "KEY", "order"},
    {"stats", 0, NULL, "what it has used"},
    {"state", 0, "STATE", "in this state"},
    {"thread", 0, "THREAD", "thread"},
    {"timeout", 0, "TIME", "end the command after this time"},
    {"ttl", 0, "TIME", NULL},
    {"tty", 't', NULL, "terminal"},
    {"until", 0, "TIME", "only"},
    {"user", 'u', "USER", "user"},
    {"verbose", 'v', NULL, "what it waits for"},
    {"version", 0, NULL, NULL},
    {"where", 0, "KEY=VALUE", "only those"},
    {"wait", 'w', "TIME", "wait this long"},
    {"yes", 'y', NULL, "do not ask"},
};

static const struct meaning *meaning_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++) {
        if (strcmp(meanings[i].name, name) == 0)
            return &meanings[i];
    }
    return NULL;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void check_meaning(const char *command, const struct cli_option *o)
{
    const struct meaning *m = meaning_of(o->name);

    /* docker's word, where an ID says whose box it is; without the letter, which is that of the owner everywhere. */
    if (strcmp(o->name, "user") == 0 && strcmp(o->help, "the same as --as") == 0 && o->letter == 0)
        m = meaning_of("as");
    if (m == NULL)
        fail_msg("--%s of %s is not in the table of meanings", o->name, command);
    if (o->letter != m->letter)
        fail_msg("--%s of %s has another letter than elsewhere", o->name, command);
    if (strcmp(o->name, "since") != 0 &&
        !is_same_text(o->value, m->value)) /* of events: an id, too */
        fail_msg("--%s of %s takes %s, elsewhere %s", o->name, command, o->value, m->value);
    if (m->help != NULL && strstr(o->help, m->help) == NULL && strcmp(o->name, m->name) == 0)
        fail_msg("--%s of %s means something else than elsewhere: %s", o->name, command, o->help);
    /* A user without more is the owner of a thread. */
    if (strcmp(o->name, "user") == 0 && strstr(o->help, "in the box") != NULL)
        fail_msg("--user of %s is a user in the box: that is --as", command);
}

/* What one has learned of a word or a letter with one command holds for all. */
static void test_a_word_has_one_meaning(void **state)
{
    (void) state;
    const char *of_letter[128] = {0};

    for (size_t i = 0; i < ARRAY_LEN(meanings); i++) {
        const char **known = &of_letter[(unsigned char) meanings[i].letter];

        if (meanings[i].letter == 0)
            continue;
        if (*known != NULL)
            fail_msg("-%c is --%s and --%s", meanings[i].letter, *known, meanings[i].name);
        *known = meanings[i].name;
    }
    for (const struct cli_option *o = cli_common; o->name != NULL; o++)
        check_meaning("every command", o);
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        for (const struct cli_option *o = c->options; o->name != NULL; o++) {
            check_meaning(c->name, o);
            for (const struct cli_option *common = cli_common; common->name != NULL; common++)
                assert_string_not_equal(o->name, common->name); /* it could not be given any more */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_word_has_one_meaning)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
