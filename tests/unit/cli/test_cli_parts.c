/* The parts of the CLI that need no daemon: arguments, times, tables, events, help, completions. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "tests/lib/unit.h"

#define PARSE(args, err, ...) parse((const char *const[]){"sandpool", __VA_ARGS__, NULL}, args, err)

static bool parse(const char *const *argv, struct cli_args *args, struct err *err)
{
    int argc = 0;

    while (argv[argc] != NULL)
        argc++;
    return cli_parse(argc, argv, args, err);
}

static void test_arguments(void **state)
{
    (void) state;
    struct cli_args a;
    struct err err = {0};
    uint64_t v = 0;

    assert_true(PARSE(&a, &err, "--socket", "/s", "acquire", "t1", "--wait=2m", "-u", "ana", "-j"));
    assert_string_equal(a.command->name, "acquire");
    assert_int_equal(a.operand_count, 1);
    assert_string_equal(a.operands[0], "t1");
    assert_string_equal(cli_option(&a, "socket"), "/s");
    assert_string_equal(cli_option(&a, "user"), "ana");
    assert_true(cli_flag(&a, "json"));
    assert_false(cli_flag(&a, "export"));
    assert_null(cli_option(&a, "profile"));
    assert_true(cli_duration_ms(&a, "wait", &v));
    assert_int_equal(v, 120000);
    assert_false(cli_duration_ms(&a, "ttl", &v));

    assert_true(PARSE(&a, &err, "ls", "--limit", "7", "--thread="));
    assert_true(cli_number(&a, "limit", &v));
    assert_int_equal(v, 7);
    assert_string_equal(cli_option(&a, "thread"), "");

    /* what begins with a dash can still be an operand; a lone dash is one */
    assert_true(PARSE(&a, &err, "get", "--", "--odd"));
    assert_string_equal(a.operands[0], "--odd");
    assert_true(PARSE(&a, &err, "get", "-"));
    assert_string_equal(a.operands[0], "-");
}

/* What follows the command of `run` is the command's, whatever it looks like. */
static void test_rest(void **state)
{
    (void) state;
    struct cli_args a;
    struct err err = {0};
    uint64_t ms = 0;

    assert_true(PARSE(&a, &err, "run", "-e", "A=1", "--timeout", "3s", "--env=B=2", "ls", "--env",
                      "", "--help", "--"));
    assert_int_equal(a.rest_count, 5);
    assert_string_equal(a.rest[0], "ls");
    assert_string_equal(a.rest[4], "--");
    assert_string_equal(cli_list(&a, "env", 0), "A=1");
    assert_string_equal(cli_list(&a, "env", 1), "B=2");
    assert_null(cli_list(&a, "env", 2));
    assert_false(cli_flag(&a, "help"));
    assert_true(cli_duration_ms(&a, "timeout", &ms));
    assert_int_equal(ms, 3000);

    assert_true(PARSE(&a, &err, "run", "-t", "--", "--version", "-x"));
    assert_int_equal(a.rest_count, 2);
    assert_string_equal(a.rest[0], "--version");
    assert_true(cli_flag(&a, "tty"));
    assert_false(cli_flag(&a, "version"));

    /* of `exec` the first is the box, and options may stand on both sides of it */
    static const char *const forms[][8] = {
        {"sandpool", "exec", "t7", "-it", "--", "ls", "-i"},
        {"sandpool", "exec", "-it", "t7", "ls", "-i"},
        {"sandpool", "exec", "-i", "t7", "--tty", "ls", "-i"},
    };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        assert_true(parse(forms[i], &a, &err));
        assert_string_equal(a.operands[0], "t7");
        assert_int_equal(a.rest_count, 2);
        assert_string_equal(a.rest[0], "ls");
        assert_string_equal(a.rest[1], "-i");
        assert_true(cli_flag(&a, "tty") && cli_flag(&a, "interactive"));
    }
}

static void test_list_is_bounded(void **state)
{
    (void) state;
    const char *argv[CLI_LIST_MAX + 5] = {"sandpool", "run"};
    struct cli_args a;
    struct err err = {0};

    for (int i = 0; i <= CLI_LIST_MAX; i++)
        argv[2 + i] = "--env=A=1";
    argv[CLI_LIST_MAX + 3] = "true";
    assert_false(parse(argv, &a, &err));
    assert_string_equal(err.msg, "--env is given more than 256 times");
}

static void test_wrong_arguments(void **state)
{
    (void) state;
    static const struct {
        const char *argv[8];
        const char *message;
    } wrong[] = {
        {{"sandpool", "lss"}, "unknown command 'lss', did you mean 'sandpool ls'?"},
        {{"sandpool", "--json"}, "a command is missing"},
        {{"sandpool", "get"}, "ID is missing"},
        {{"sandpool", "get", ""}, "ID is empty"},
        {{"sandpool", "get", "a", "b"}, "'b' is one argument too many"},
        {{"sandpool", "ls", "x"}, "'x' is one argument too many"},
        {{"sandpool", "ls", "--nope"}, "unknown option '--nope'"},
        {{"sandpool", "ls", "-z"}, "unknown option '-z'"},
        {{"sandpool", "ls", "-qz"}, "unknown option '-qz'"},
        {{"sandpool", "exec", "a"}, "ID COMMAND... is missing"},
        {{"sandpool", "exec", "-tC", "/", "a", "ls"}, "unknown option '-tC'"},
        {{"sandpool", "--quiet", "ls"}, "unknown option '--quiet'"},
        {{"sandpool", "ls", "--limit"}, "--limit needs a value"},
        {{"sandpool", "ls", "--limit", "many"}, "--limit must be a number, not 'many'"},
        {{"sandpool", "ls", "--limit=-1"}, "--limit must be a number, not '-1'"},
        {{"sandpool", "ls", "--json=1"}, "--json takes no value"},
        {{"sandpool", "acquire", "--wait", "soon"},
         "--wait must be a time like 500ms, 30s or 5m, not 'soon'"},
        {{"sandpool", "ls", "--state", "dead"},
         "--state must be one of starting blank leased parked deleting hibernated, not 'dead'"},
        {{"sandpool", "run"}, "COMMAND... is missing"},
        {{"sandpool", "run", "--", ""}, "COMMAND... is empty"},
        {{"sandpool", "run", "--env"}, "--env needs a value"},
        {{"sandpool", "run", "--timeout", "x", "ls"},
         "--timeout must be a time like 500ms, 30s or 5m, not 'x'"},
        {{"sandpool", "run", "--tty=1", "ls"}, "--tty takes no value"},
        {{"sandpool", "doctor", "x"}, "'x' is one argument too many"},
        {{"sandpool", "shell", "-u", "root", "a"}, "unknown option '-u', did you mean '--as'?"},
        {{"sandpool", "fork", "a", "-n", "3"}, "unknown option '-n', did you mean '--count'?"},
        {{"sandpool", "pool", "--timeout", "3s"},
         "unknown option '--timeout', did you mean '--request-timeout'?"},
        {{"sandpool", "acquire", "--timeout", "3s"},
         "unknown option '--timeout', did you mean '--wait'?"},
        {{"sandpool", "exec", "--environment", "A=b", "a", "id"},
         "unknown option '--environment', did you mean '--env'?"},
        {{"sandpool", "exec", "--det", "a", "id"},
         "unknown option '--det', did you mean '--detach'?"},
        {{"sandpool", "destroy", "-f", "a"}, "unknown option '-f', did you mean '--yes'?"},
        {{"sandpool", "get", "-o", "json", "a"}, "unknown option '-o', did you mean '--json'?"},
        /* the first mistake is the one that is reported */
        {{"sandpool", "ls", "--nope", "--limit", "x"}, "unknown option '--nope'"},
    };

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct cli_args a;
        struct err err = {0};

        assert_false(parse(wrong[i].argv, &a, &err));
        assert_string_equal(err.msg, wrong[i].message);
    }
}

static void test_help_wins(void **state)
{
    (void) state;
    struct cli_args a;
    struct err err = {0};

    assert_true(PARSE(&a, &err, "get", "--help"));
    assert_true(PARSE(&a, &err, "get", "--bogus", "-h"));
    assert_true(PARSE(&a, &err, "--version"));
}

static void test_durations(void **state)
{
    (void) state;
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"0", 0},       {"5", 5000},     {"500ms", 500},   {"30s", 30000},
                {"5m", 300000}, {"2h", 7200000}, {"1d", 86400000}, {"4294967295", 4294967295000}};
    static const char *const bad[] = {"",   "s", "-1", "1.5s", "1 s", "5w", "99999999999999999999",
                                      "1sm"};
    static const struct {
        double seconds;
        const char *text;
    } shown[] = {{0, "0s"},    {0.9, "0s"},    {119, "119s"}, {120, "2m"},    {7199, "119m"},
                 {7200, "2h"}, {172800, "2d"}, {-5, "0s"},    {864000, "10d"}};
    uint64_t v;
    char text[24];

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(duration_parse_ms(good[i].text, &v));
        assert_int_equal(v, good[i].ms);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(duration_parse_ms(bad[i], &v));
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        duration_print(shown[i].seconds, text);
        assert_string_equal(text, shown[i].text);
    }
}

static void test_table(void **state)
{
    (void) state;
    static const char *const head[] = {"ID", "NAME"};
    struct out_table t;
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    out_table_init(&t, head, 2);
    out_cell(&t, "12345");
    out_cell(&t, "a\x1b[2J\nb\xc2\x9b"
                 "c\xe2\x80\xae"
                 "d\xe2\x81\xa6\xe2\x80\xa8\xe2\x80\xa6");
    out_cell(&t, "\xc3\xa4\xc3\xb6");
    out_cell(&t, NULL);
    out_cell_u64(&t, 7);
    out_cell(&t, "");
    out_table_print(&t, out);
    (void) fclose(out);
    assert_string_equal(text, "ID     NAME\n"
                              "12345  a?[2J?b?c?d??\xe2\x80\xa6\n"
                              "\xc3\xa4\xc3\xb6     -\n"
                              "7      -\n");
    free(text);
    out_table_fini(&t);
}

struct seen {
    struct sse sse;
    char text[512];
    unsigned count;
    unsigned enough;
};

static bool on_event(struct sse *s)
{
    struct seen *seen = container_of(s, struct seen, sse);
    size_t len = strlen(seen->text);

    (void) snprintf(seen->text + len, sizeof(seen->text) - len, "[%s|%s|%s]", s->id, s->event,
                    buf_str(&s->data));
    seen->count++;
    return seen->count != seen->enough;
}

static void test_events(void **state)
{
    (void) state;
    static const char stream[] = ":\n\nid: 1\nevent: leased\ndata: {\"a\":1}\n\n"
                                 "id:2\r\ndata:x\r\ndata: y\r\n\r\n"
                                 "event: nothing\n\n"
                                 "data: kept id\nretry: 5\n\n";
    struct seen seen = {.enough = 0};

    /* cut anywhere, it reads the same */
    for (size_t cut = 0; cut < sizeof(stream); cut++) {
        size_t len = strlen(stream);
        size_t first = cut < len ? cut : len;

        memset(&seen, 0, sizeof(seen));
        sse_init(&seen.sse, on_event);
        assert_true(sse_feed(&seen.sse, stream, first));
        assert_true(sse_feed(&seen.sse, stream + first, len - first));
        assert_string_equal(seen.text, "[1|leased|{\"a\":1}][2||x\ny][2||kept id]");
        sse_fini(&seen.sse);
    }
    memset(&seen, 0, sizeof(seen));
    seen.enough = 2;
    sse_init(&seen.sse, on_event);
    assert_false(sse_feed(&seen.sse, stream, strlen(stream)));
    assert_int_equal(seen.count, 2);

    /* a half event is not mixed into the next connection's first */
    sse_restart(&seen.sse);
    seen.text[0] = '\0';
    assert_true(sse_feed(&seen.sse, "event: a\ndata: lost", 19));
    sse_restart(&seen.sse);
    assert_true(sse_feed(&seen.sse, "data: b\n\n", 9));
    assert_string_equal(seen.text, "[2||b]");

    /* a line without an end is given up */
    bool is_fine = true;
    for (int i = 0; i < 300 && is_fine; i++) {
        char block[1024];

        memset(block, 'x', sizeof(block));
        is_fine = sse_feed(&seen.sse, block, sizeof(block));
    }
    assert_false(sse_feed(&seen.sse, "\n", 1));
    sse_fini(&seen.sse);
}

/* Every command has what people look for in its help. */
static void test_help_is_complete(void **state)
{
    (void) state;
    static const char *const wanted[] = {"run",       "doctor",  "acquire",   "release", "renew",
                                         "get",       "ls",      "destroy",   "pool",    "events",
                                         "pause",     "resume",  "drain",     "reload",  "help",
                                         "reconcile", "version", "completion"};

    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        assert_non_null(cli_find_command(wanted[i]));
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);
        char usage[64];

        assert_non_null(out);
        cli_print_command_help(c, out);
        (void) fclose(out);
        (void) snprintf(usage, sizeof(usage), "Usage: sandpool %s", c->name);
        assert_true(strncmp(text, usage, strlen(usage)) == 0);
        assert_non_null(strstr(text, "\nExamples:\n  "));
        assert_non_null(strstr(c->examples, c->name));
        assert_non_null(strstr(text, "\nExit codes:\n"));
        for (const struct cli_option *o = c->options; o->name != NULL; o++) {
            assert_non_null(strstr(text, o->name));
            assert_true(o->kind == CLI_FLAG ? o->value == NULL : o->value != NULL);
        }
        assert_true(c->operands_max <= CLI_OPERANDS_MAX || c->operands_max == CLI_REST);
        free(text);
    }
}

static void test_completions_are_current(void **state)
{
    (void) state;
    static const char *const files[][2] = {
        {"bash", "sandpool.bash"}, {"zsh", "_sandpool"}, {"fish", "sandpool.fish"}};
    const char *dir = getenv("SANDPOOL_SOURCE_DIR");

    assert_non_null(dir);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char path[512];
        char *made = NULL;
        size_t made_len;
        FILE *out = open_memstream(&made, &made_len);
        char *file = calloc(1, 65536);
        size_t file_len;

        assert_non_null(out);
        assert_non_null(file);
        assert_true(cli_print_completion(files[i][0], out));
        (void) fclose(out);
        (void) snprintf(path, sizeof(path), "%s/src/dist/completions/%s", dir, files[i][1]);
        FILE *in = fopen(path, "rb");
        assert_non_null(in);
        file_len = fread(file, 1, 65535, in);
        (void) fclose(in);
        assert_int_equal(file_len, made_len);
        assert_string_equal(file, made);
        for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
            assert_non_null(strstr(made, c->name));
        free(file);
        free(made);
    }
    assert_false(cli_print_completion("tcsh", stdout));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_list_is_bounded),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_help_wins),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_help_is_complete),
        cmocka_unit_test(test_completions_are_current),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
