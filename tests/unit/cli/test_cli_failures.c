/* How commands name sandboxes, and what they say when something is wrong. */
#include "tests/unit/cli/fixture.h"

static const char box[] = "{\"sandbox_id\":\"fe0dc8182dec7b77\",\"state\":\"parked\"}";
static const char absent[] = "{\"error\":{\"code\":\"not_found\",\"message\":\"no such sandbox\"}}";

static void test_by_id(void **state)
{
    (void) state;
    struct fixture w = {0};

    will_answer(&w, 200, box);
    RUN(&w, "release", "fe0dc8182dec7b77");
    assert_int_equal(w.code, CLI_OK);
    expect_request(&w, 0, "POST /v1/sandboxes/fe0dc8182dec7b77/release HTTP/1.1\r\n", "{}");
    assert_string_equal(w.out, "fe0dc8182dec7b77 is parked\n");
    finish(&w);

    /* nothing but an id looks like this: no thread is asked for */
    will_answer(&w, 404, absent);
    RUN(&w, "get", "box:0123456789abcdef");
    assert_int_equal(w.code, CLI_NOT_FOUND);
    assert_string_equal(w.err, "sandpool: no such sandbox; 'sandpool ls' shows what there is\n");
    finish(&w);

    will_answer(&w, 404,
                "{\"error\":{\"code\":\"not_found\",\"message\":\"no such snapshot: 'x'\"}}");
    RUN(&w, "snapshot", "rm", "0123456789abcdef");
    assert_int_equal(w.code, CLI_NOT_FOUND);
    assert_string_equal(w.err,
                        "sandpool: no such snapshot: 'x'; 'sandpool snapshot ls' lists them\n");
    finish(&w);
}

static void test_by_thread(void **state)
{
    (void) state;
    struct fixture w = {0};

    /* an id comes first, because a caller may choose any name as an id */
    will_answer(&w, 404, absent);
    will_answer(&w, 200, box);
    RUN(&w, "destroy", "demo", "--quick");
    assert_int_equal(w.code, CLI_OK);
    expect_request(&w, 0, "DELETE /v1/sandboxes/demo?quick=1 HTTP/1.1\r\n", "");
    expect_request(&w, 1, "DELETE /v1/sandboxes/thread:default%2Fdemo?quick=1 HTTP/1.1\r\n", "");
    finish(&w);

    will_answer(&w, 200, box);
    RUN(&w, "renew", "demo", "-u", "ana@example", "--ttl", "5m");
    assert_int_equal(w.code, CLI_OK);
    expect_request(&w, 0, "POST /v1/sandboxes/thread:ana%40example%2Fdemo/renew HTTP/1.1\r\n",
                   "{\"ttl_s\":300}");
    finish(&w);

    will_answer(&w, 404, absent);
    will_answer(&w, 404, absent);
    RUN(&w, "get", "demo");
    assert_int_equal(w.code, CLI_NOT_FOUND);
    assert_string_equal(w.err,
                        "sandpool: the thread 'demo' of the user 'default' has no sandbox, and "
                        "none has that id; 'sandpool ls' shows what there is\n");
    finish(&w);

    will_answer(&w, 404, absent);
    RUN(&w, "get", "demo", "--user", "ana");
    assert_string_equal(w.err, "sandpool: the thread 'demo' of the user 'ana' has no sandbox; "
                               "'sandpool ls' shows what there is\n");
    finish(&w);
}

static void test_json(void **state)
{
    (void) state;
    struct fixture w = {0};

    will_answer(&w, 429,
                "{\"error\":{\"code\":\"pool_exhausted\",\"message\":\"all are in use\","
                "\"retry_after_ms\":1500}}");
    RUN(&w, "acquire", "t", "--json");
    assert_int_equal(w.code, CLI_BUSY);
    assert_string_equal(w.err, "");
    assert_string_equal(
        w.out,
        "{\"error\":{\"code\":\"pool_exhausted\",\"message\":\"all are in use; release "
        "one ('sandpool ls' shows them) or raise pool.max_boxes\",\"retry_after_ms\":1500}}\n");
    finish(&w);

    RUN(&w, "--json", "lst");
    assert_int_equal(w.code, CLI_USAGE);
    assert_string_equal(w.err, "");
    assert_string_equal(w.out,
                        "{\"error\":{\"code\":\"bad_request\",\"message\":\"unknown command 'lst', "
                        "did you mean 'sandpool ls'?; try 'sandpool --help'\"}}\n");
    finish(&w);

    RUN(&w, "--json", "events", "--since", "soon");
    assert_int_equal(w.code, CLI_USAGE);
    assert_true(strncmp(w.out, "{\"error\":{\"code\":\"bad_request\"", 30) == 0);
    finish(&w);

    RUN(&w, "ls", "--json", "--socket", "/tmp/no-such-directory/s");
    assert_int_equal(w.code, CLI_UNREACHABLE);
    assert_true(strncmp(w.out, "{\"error\":{\"code\":\"connect_failed\"", 33) == 0);
    finish(&w);

    /* the output of a run is its command's */
    RUN(&w, "run", "--json", "--socket", "/tmp/no-such-directory/s", "true");
    assert_int_equal(w.code, CLI_RUN_FAILED);
    assert_string_equal(w.out, "");
    assert_true(strncmp(w.err, "{\"error\":{\"code\":\"connect_failed\"", 33) == 0);
    finish(&w);
}

/* Whatever the command: one object, where the output of a box cannot be mistaken for it. */
static void test_json_of_every_command(void **state)
{
    static const char *const lines[][5] = {
        {"shell", "b", NULL},
        {"exec", "b", "true", NULL},
        {"logs", "b", NULL},
        {"cp", "a", "b:", NULL},
        {"port-forward", "b", "8000", NULL},
        {"jobs", "b", NULL},
        {"get", "b", NULL},
        {"backup", "/nonexistent/f", NULL},
        {"events", NULL},
        {"pool", NULL},
        {"acquire", "t", NULL},
        {"destroy", "b", NULL},
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        const char *argv[10] = {"sandpool", "--json", "--socket", "/nonexistent/s"};
        struct fixture w = {0};
        bool is_box = i < 3;
        int argc = 4;

        for (unsigned k = 0; lines[i][k] != NULL; k++)
            argv[argc++] = lines[i][k];
        run(&w, argv);
        assert_int_not_equal(w.code, CLI_OK);
        if (strncmp(is_box ? w.err : w.out, "{\"error\":{\"code\":\"", 18) != 0 ||
            (is_box ? w.out : w.err)[0] != '\0')
            fail_msg("%s: '%s' '%s'", lines[i][0], w.out, w.err);
        finish(&w);
    }
}

/* The next word may be a command. */
static void test_unknown_command_before_others(void **state)
{
    struct fixture w = {0};

    (void) state;
    RUN(&w, "demo", "ls", "--state", "x");
    assert_string_equal(w.err, "sandpool: unknown command 'demo'; try 'sandpool --help'\n");
    finish(&w);
}

static void test_options_not_fields(void **state)
{
    (void) state;
    static const char *const cases[][2] = {
        {"'ttl_s' must be a whole number from 1 to 9", "--ttl (in seconds) must be a whole number"},
        {"'limits': 'memory' must be bytes", "--memory must be bytes"},
        {"'mounts': '/proc' cannot be covered", "--mount: '/proc' cannot be covered"},
        {"'user_id' must be 1 to 128 characters", "--user must be 1 to 128 characters"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture w = {0};
        char body[256];

        (void) snprintf(body, sizeof(body),
                        "{\"error\":{\"code\":\"invalid_field\",\"message\":\"%s\"}}", cases[i][0]);
        will_answer(&w, 422, body);
        RUN(&w, "acquire", "t");
        assert_int_equal(w.code, CLI_FAILED);
        assert_non_null(strstr(w.err, cases[i][1]));
        finish(&w);
    }
}

static void test_suggestions(void **state)
{
    (void) state;
    static const char *const cases[][2] = {
        {"acquier", "did you mean 'sandpool acquire'?"},
        {"list", "did you mean 'sandpool ls'?"},
        {"remove", "did you mean 'sandpool destroy'?"},
        {"port-forwrd", "did you mean 'sandpool port-forward'?"},
        {"inspekt", "did you mean 'sandpool inspect'?"},
        {"ssh", "did you mean 'sandpool shell'?"},
        {"ver", "did you mean 'sandpool version'?"},
        {"attch", "did you mean 'sandpool shell'?"},
        {"stats", "did you mean 'sandpool top'?"},
        {"commit", "did you mean 'sandpool snapshot create'?"},
    };
    struct fixture w = {0};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        RUN(&w, cases[i][0]);
        assert_int_equal(w.code, CLI_USAGE);
        assert_non_null(strstr(w.err, cases[i][1]));
        finish(&w);
    }
    RUN(&w, "acquire", "--proflie", "x");
    assert_non_null(strstr(w.err, "unknown option '--proflie', did you mean '--profile'?"));
    finish(&w);
    RUN(&w, "ls", "--jsn");
    assert_non_null(strstr(w.err, "did you mean '--json'?"));
    finish(&w);
    RUN(&w, "help", "lst");
    assert_int_equal(w.code, CLI_USAGE);
    assert_non_null(strstr(w.err, "did you mean 'sandpool ls'?"));
    finish(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_id),
        cmocka_unit_test(test_by_thread),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_of_every_command),
        cmocka_unit_test(test_unknown_command_before_others),
        cmocka_unit_test(test_options_not_fields),
        cmocka_unit_test(test_suggestions),
    };

    return cmocka_run_group_tests_name("cli_failures", tests, NULL, NULL);
}
