/* Whole commands against a server that answers from a script: what is asked, what is printed, and
 * with which code the program ends. */
#include "tests/unit/cli/fixture.h"

static const char lease[] =
    "{\"sandbox_id\":\"fe0dc8182dec7b77\",\"generation\":2,\"sandbox_url\":\"http://127.0.0.1:9\","
    "\"token\":\"it's\",\"source\":\"warm\",\"state\":\"leased\",\"profile\":\"default\","
    "\"user_id\":\"default\",\"thread_id\":\"t1\",\"created_at\":\"2026-11-16T00:00:00.000Z\","
    "\"expires_at\":null,\"ends_at\":\"2026-11-16T00:10:00.000Z\",\"ends_by\":\"idle\",\"ends_in_s\":600,"
    "\"timings_ms\":{\"queued\":0,\"total\":0.25}}";

static void test_acquire(void **state)
{
    (void) state;
    struct fixture w = {0};

    will_answer(&w, 200, lease);
    RUN(&w, "acquire", "t1", "-u", "ana", "-p", "big", "--wait", "500ms", "--ttl", "1500ms",
        "--metadata", "{\"k\":[1]}");
    assert_int_equal(w.code, CLI_OK);
    expect_request(&w, 0, "POST /v1/acquire HTTP/1.1\r\n",
                   "{\"thread_id\":\"t1\",\"user_id\":\"ana\",\"profile\":\"big\",\"wait_ms\":500,"
                   "\"ttl_s\":2,\"metadata\":{\"k\":[1]}}");
    assert_string_equal(w.out, "sandbox_id     fe0dc8182dec7b77\n"
                               "url            http://127.0.0.1:9\n"
                               "source         warm\n"
                               "profile        default\n"
                               "expires        -\n"
                               "ends in        10m (idle)\n"
                               "took           0.25 ms\n");
    assert_string_equal(w.err, "");
    finish(&w);

    will_answer(&w, 200, lease);
    RUN(&w, "acquire", "--json");
    expect_request(&w, 0, "POST /v1/acquire HTTP/1.1\r\n", "{}");
    assert_int_equal(w.code, CLI_OK);
    assert_int_equal(strlen(w.out), strlen(lease) + 1);
    assert_true(strncmp(w.out, lease, strlen(lease)) == 0);
    finish(&w);

    will_answer(&w, 200, lease);
    RUN(&w, "acquire", "t1", "--export");
    assert_string_equal(w.out, "export SANDBOX_ID='fe0dc8182dec7b77'\n"
                               "export SANDBOX_URL='http://127.0.0.1:9'\n"
                               "export SANDBOX_TOKEN='it'\\''s'\n"
                               "export SANDBOX_GENERATION='2'\n");
    finish(&w);

    will_answer(&w, 200, lease);
    RUN(&w, "acquire", "-q");
    assert_string_equal(w.out, "fe0dc8182dec7b77\n");
    finish(&w);

    RUN(&w, "acquire", "--metadata", "[1]");
    assert_int_equal(w.code, CLI_USAGE);
    finish(&w);
}

static void test_exit_codes(void **state)
{
    (void) state;
    static const struct {
        int status;
        const char *code;
        int exit;
    } cases[] = {
        {404, "not_found", CLI_NOT_FOUND},
        {410, "sandbox_lost", CLI_NOT_FOUND},
        {429, "pool_exhausted", CLI_BUSY},
        {503, "store_unavailable", CLI_BUSY},
        {503, "paused", CLI_BUSY},
        {403, "forbidden", CLI_FAILED},
        {409, "stale_generation", CLI_FAILED},
        {500, "internal", CLI_FAILED},
        {504, "timeout", CLI_FAILED},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture w = {0};
        char body[256];

        (void) snprintf(body, sizeof(body),
                        "{\"error\":{\"code\":\"%s\",\"message\":\"the \\u001b[1mreason\","
                        "\"retry_after_ms\":1500}}",
                        cases[i].code);
        will_answer(&w, cases[i].status, body);
        RUN(&w, "get", "fe0dc8182dec7b77");
        assert_int_equal(w.code, cases[i].exit);
        assert_string_equal(w.out, "");
        /* one line, one sentence, no escape sequence gets through */
        assert_true(strncmp(w.err, "sandpool: the ?[1mreason", 24) == 0);
        assert_non_null(strstr(w.err, "; try again in 1.5 s\n"));
        assert_ptr_equal(strchr(w.err, '\n') + 1, w.err + strlen(w.err));
        finish(&w);
    }
}

static void test_unreachable(void **state)
{
    (void) state;
    struct fixture w = {0};

    RUN(&w, "ls", "--socket", "/tmp/no-such-directory/s");
    assert_int_equal(w.code, CLI_UNREACHABLE);
    assert_non_null(strstr(w.err, "no daemon listens at '/tmp/no-such-directory/s'"));
    finish(&w);

    w.steps[0] = (struct step){.want_silence = true, .want_close = true};
    w.count = 1;
    RUN(&w, "pool", "--request-timeout", "50ms");
    assert_int_equal(w.code, CLI_UNREACHABLE);
    assert_non_null(strstr(w.err, "did not answer in time; --request-timeout waits longer\n"));
    finish(&w);

    will_answer(&w, 200, "[not what you think]");
    RUN(&w, "pool");
    assert_int_equal(w.code, CLI_FAILED);
    finish(&w);
}

static void test_usage(void **state)
{
    (void) state;
    struct fixture w = {0};

    run(&w, (const char *const[]){"sandpool", NULL});
    assert_int_equal(w.code, CLI_USAGE);
    assert_non_null(strstr(w.err, "Usage: sandpool COMMAND"));
    finish(&w);
    RUN(&w, "ls", "--nope");
    assert_int_equal(w.code, CLI_USAGE);
    assert_string_equal(w.err, "sandpool: unknown option '--nope'; try 'sandpool ls --help'\n");
    finish(&w);
    RUN(&w, "frobnicate");
    assert_int_equal(w.code, CLI_USAGE);
    assert_string_equal(w.err, "sandpool: unknown command 'frobnicate'; try 'sandpool --help'\n");
    finish(&w);
    RUN(&w, "help", "renew");
    assert_int_equal(w.code, CLI_OK);
    assert_non_null(strstr(w.out, "Usage: sandpool renew ID"));
    finish(&w);
    RUN(&w, "help", "nothing");
    assert_int_equal(w.code, CLI_USAGE);
    finish(&w);
    RUN(&w, "--help");
    assert_int_equal(w.code, CLI_OK);
    assert_non_null(strstr(w.out, "Exit codes:"));
    finish(&w);
    RUN(&w, "--version");
    assert_int_equal(w.code, CLI_OK);
    assert_true(strncmp(w.out, "sandpool ", 9) == 0);
    finish(&w);
    RUN(&w, "completion", "tcsh");
    assert_int_equal(w.code, CLI_USAGE);
    finish(&w);
}

static void test_lease_commands(void **state)
{
    (void) state;
    struct fixture w = {0};

    will_answer(&w, 200, "{\"sandbox_id\":\"a/b\",\"generation\":3,\"state\":\"parked\"}");
    RUN(&w, "release", "a/b", "-g", "3", "--destroy");
    expect_request(&w, 0, "POST /v1/sandboxes/thread:a%2Fb/release HTTP/1.1\r\n",
                   "{\"generation\":3,\"destroy\":true}");
    assert_string_equal(w.out, "a/b is parked\n");
    finish(&w);

    will_answer(&w, 200, "{\"sandbox_id\":\"ab\",\"expires_at\":\"2026-11-16T01:00:00.000Z\"}");
    RUN(&w, "renew", "ab", "--ttl", "2h");
    expect_request(&w, 0, "POST /v1/sandboxes/ab/renew HTTP/1.1\r\n", "{\"ttl_s\":7200}");
    assert_string_equal(w.out, "ab lasts until 2026-11-16T01:00:00.000Z\n");
    finish(&w);

    will_answer(&w, 200, "{\"sandbox_id\":\"ab\",\"expires_at\":null}");
    RUN(&w, "renew", "ab");
    assert_string_equal(w.out, "ab has no deadline\n");
    finish(&w);

    will_answer(&w, 200, "{\"sandbox_id\":null,\"state\":\"deleting\"}");
    RUN(&w, "destroy", "box:0123456789abcdef", "--quick", "-g", "4");
    expect_request(
        &w, 0, "DELETE /v1/sandboxes/box:0123456789abcdef?quick=1&generation=4 HTTP/1.1\r\n", "");
    assert_string_equal(w.out, "box:0123456789abcdef is deleting\n");
    finish(&w);

    will_answer(&w, 200,
                "{\"state\":\"gone\",\"report\":{\"text\":\"x\",\"processes\":3,\"mounts\":5,"
                "\"layers\":1,\"bytes\":12400000,\"lived_s\":240.5,\"usage\":{\"leased_ms\":120000,"
                "\"parked_ms\":60000,\"paused_ms\":0},\"currency\":\"EUR\",\"cost\":\"0.0125\","
                "\"cost_micros\":12500}}");
    RUN(&w, "rm", "ab");
    assert_string_equal(w.out, "destroyed ab: 3 processes, 5 mounts, 12.4 MB, lived 4m, "
                               "leased 2m, parked 60s, cost 0.0125 EUR\n");
    finish(&w);

    will_answer(&w, 200,
                "{\"state\":\"gone\",\"report\":{\"text\":\"x\",\"processes\":1,\"mounts\":null,"
                "\"layers\":1,\"bytes\":4096,\"lived_s\":null,\"usage\":null,\"currency\":null,"
                "\"cost\":null,\"cost_micros\":null}}");
    RUN(&w, "release", "ab", "--destroy");
    assert_string_equal(w.out, "destroyed ab: 1 process, 4.1 KB\n");
    finish(&w);

    will_answer(&w, 202,
                "{\"state\":\"deleting\",\"report\":{\"text\":\"recorded\",\"processes\":null}}");
    RUN(&w, "destroy", "ab");
    assert_string_equal(w.out, "ab is deleting: recorded\n");
    finish(&w);

    will_answer(&w, 200, lease);
    RUN(&w, "get", "fe0dc8182dec7b77", "--alive");
    expect_request(&w, 0, "GET /v1/sandboxes/fe0dc8182dec7b77?alive=1 HTTP/1.1\r\n", "");
    assert_non_null(strstr(w.out, "generation     2\n"));
    assert_null(strstr(w.out, "it's")); /* tokens are not for screens */
    assert_null(strstr(w.out, "expires_at"));
    finish(&w);
}

static const char page1[] =
    "{\"sandboxes\":[{\"box_id\":\"0123456789abcdef\",\"sandbox_id\":\"aa\",\"state\":\"leased\","
    "\"profile\":\"default\",\"user_id\":\"u\",\"thread_id\":\"t\",\"age_s\":130.5,\"idle_s\":3,"
    "\"expires_at\":null,\"ends_by\":\"parked\",\"ends_in_s\":59.9,\"sandbox_url\":\"http://h:1\"}],\"next_cursor\":\"17&x\"}";
static const char page2[] =
    "{\"sandboxes\":[{\"box_id\":\"fedcba9876543210\",\"sandbox_id\":null,\"state\":\"blank\","
    "\"profile\":\"default\"}],\"next_cursor\":null}";

static void test_ls(void **state)
{
    (void) state;
    struct fixture w = {0};

    will_answer(&w, 200, page1);
    will_answer(&w, 200, page2);
    RUN(&w, "ls", "--state", "leased", "--user", "a&b", "--thread", "t 1", "-p", "default");
    assert_int_equal(w.code, CLI_OK);
    expect_request(&w, 0,
                   "GET /v1/sandboxes?limit=500&state=leased&profile=default&user_id=a%26b&"
                   "thread_id=t%201 HTTP/1.1\r\n",
                   "");
    assert_non_null(strstr(script_server_request(w.server, 1), "&cursor=17%26x HTTP/1.1\r\n"));
    assert_string_equal(
        w.out,
        "ID                    STATE   PROFILE  USER  THREAD  PRINCIPAL  AGE  LEASED  IDLE  LAST  ENDS"
        "          URL\n"
        "aa                    leased  default  u     t       -          2m   -       3s    -     59s "
        "(parked)  http://h:1\n"
        "box:fedcba9876543210  blank   default  -     -       -          -    -       -     -     -    "
        "         -\n");
    finish(&w);

    will_answer(&w, 200, page1);
    will_answer(&w, 200, page2);
    RUN(&w, "ls", "--json");
    struct json_doc *doc = json_parse(w.out, strlen(w.out), 65536, NULL);
    assert_int_equal(json_len(json_get(json_root(doc), "sandboxes")), 2);
    assert_true(json_is_null(json_get(json_root(doc), "next_cursor")));
    (void) json_doc_free(doc);
    finish(&w);

    will_answer(&w, 200, page1);
    RUN(&w, "ls", "-q", "-n", "1");
    expect_request(&w, 0, "GET /v1/sandboxes?limit=1 HTTP/1.1\r\n", "");
    assert_string_equal(w.out, "aa\n");
    finish(&w);

    /* half a list is no list */
    will_answer(&w, 200, page1);
    will_answer(&w, 500, "{\"error\":{\"code\":\"internal\",\"message\":\"m\"}}");
    RUN(&w, "ls", "--json");
    assert_int_equal(w.code, CLI_FAILED);
    assert_string_equal(w.out, "{\"error\":{\"code\":\"internal\",\"message\":\"m\"}}\n");
    finish(&w);

    RUN(&w, "ls", "--limit", "0");
    assert_int_equal(w.code, CLI_USAGE);
    finish(&w);
}

static void test_pool(void **state)
{
    (void) state;
    struct fixture w = {0};

    will_answer(
        &w, 200,
        "{\"mode\":\"running\",\"store\":{\"state\":\"up\"},\"max_boxes\":10,\"total\":3,"
        "\"by_state\":{\"blank\":2,\"leased\":1,\"parked\":0},\"waiting\":1,"
        "\"oldest_wait_ms\":1500,\"profiles\":[{\"name\":\"default\",\"backend\":\"sim\","
        "\"target\":2,\"by_state\":{\"starting\":1,\"blank\":2,\"leased\":1,\"parked\":0},"
        "\"waiting\":1,\"arrivals_per_s\":0.5,\"provision_ms\":51.7,\"breaker\":{\"open\":"
        "true,\"failures\":5,\"reason\":\"no image\"},\"warm_hits\":9,\"cold_starts\":4}]}");
    RUN(&w, "pool");
    assert_int_equal(w.code, CLI_OK);
    assert_non_null(strstr(w.out, "mode           running\n"));
    assert_non_null(strstr(w.out, "boxes          3 of 10\n  blank        2\n  leased       1\n"));
    assert_non_null(strstr(w.out, "waiting        1, longest 1.5 s\n"));
    assert_non_null(strstr(w.out, "5 failures, refusing: no image\n"));
    assert_non_null(strstr(w.out, "30.0"));
    finish(&w);
}

static void test_operating(void **state)
{
    (void) state;
    static const struct {
        const char *command;
        const char *target;
        const char *said;
        const char *body;
    } cases[] = {
        {"pause", "POST /v1/pool/pause HTTP/1.1\r\n", "the pool is paused", "{}"},
        {"resume", "POST /v1/pool/resume HTTP/1.1\r\n", "the pool serves again", "{}"},
        {"reconcile", "POST /v1/pool/reconcile HTTP/1.1\r\n", "boxes seen: 3, backends asked: 1",
         ""},
        {"reload", "POST /v1/pool/reload HTTP/1.1\r\n", "profiles: 2", ""},
    };
    static const char answer[] = "{\"mode\":\"x\",\"boxes_seen\":3,\"backends_listed\":1,"
                                 "\"backends_failed\":0,\"profiles\":2}";
    struct fixture w = {0};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        will_answer(&w, 200, answer);
        RUN(&w, cases[i].command);
        assert_int_equal(w.code, CLI_OK);
        expect_request(&w, 0, cases[i].target, cases[i].body);
        assert_non_null(strstr(w.out, cases[i].said));
        finish(&w);
        will_answer(&w, 200, answer);
        RUN(&w, cases[i].command, "-j");
        assert_true(strncmp(w.out, answer, strlen(answer)) == 0);
        finish(&w);
    }
    will_answer(&w, 200, "{\"mode\":\"draining\"}");
    RUN(&w, "drain", "--evict-parked");
    expect_request(&w, 0, "POST /v1/pool/drain HTTP/1.1\r\n", "{\"evict_parked\":true}");
    finish(&w);
    will_answer(&w, 200, "{\"backends_failed\":2}");
    RUN(&w, "reconcile");
    assert_int_equal(w.code, CLI_FAILED);
    assert_non_null(strstr(w.err, "could not be asked: 2"));
    finish(&w);
    will_answer(&w, 200, "{\"version\":\"9.9\",\"instance\":\"i\",\"pid\":7,\"uptime_s\":3.2}");
    RUN(&w, "version");
    assert_non_null(strstr(w.out, "sandpoold 9.9 (instance i, pid 7, up 3s)\n"));
    finish(&w);
}

static void test_events(void **state)
{
    (void) state;
    static const char stored[] =
        "id: 4\nevent: leased\ndata: {\"at\":\"2026-11-16T00:00:00.000Z\",\"event\":\"leased\","
        "\"box\":\"0f\",\"thread\":\"t 1\",\"n\":3,\"x\":null}\n\n";
    struct fixture w = {0};

    will_answer(&w, 200, stored);
    RUN(&w, "events", "--since", "3", "--no-follow");
    assert_int_equal(w.code, CLI_OK);
    expect_request(&w, 0, "GET /v1/events?follow=0&since=3 HTTP/1.1\r\n", "");
    assert_string_equal(w.out, "2026-11-16T00:00:00.000Z 4 leased box=0f thread=\"t 1\" n=3\n");
    finish(&w);

    /* a thread, as where an operand names a box */
    will_answer(&w, 200, "");
    RUN(&w, "events", "--id", "ana/t1", "--no-follow");
    expect_request(&w, 0, "GET /v1/events?follow=0&id=thread:ana%2Ft1 HTTP/1.1\r\n", "");
    finish(&w);
    will_answer(&w, 200, "{\"usage\":[]}");
    RUN(&w, "usage", "--id", "thread:ana/t1");
    expect_request(&w, 0, "GET /v1/usage?intervals=0&sandbox_id=thread:ana%2Ft1 HTTP/1.1\r\n", "");
    finish(&w);

    /* the stream breaks: taken up again after the last event, ended by a refusal */
    w.steps[0] = (struct step){
        .answer =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\nid: 5\ndata: {\"a\":1}"
            "\n\r\n1\r\n\n\r\n",
        .want_close = true};
    w.count = 1;
    will_answer(&w, 403, "{\"error\":{\"code\":\"forbidden\",\"message\":\"no\"}}");
    RUN(&w, "events", "--json");
    assert_int_equal(w.code, CLI_FAILED);
    assert_string_equal(w.out,
                        "{\"a\":1}\n{\"error\":{\"code\":\"forbidden\",\"message\":\"no\"}}\n");
    assert_non_null(strstr(w.err, "connecting again"));
    assert_non_null(strstr(script_server_request(w.server, 1), "\r\nLast-Event-ID: 5\r\n"));
    finish(&w);

    /* nobody there from the start: reported at once */
    RUN(&w, "events", "-s", "/tmp/no-such-directory/s");
    assert_int_equal(w.code, CLI_UNREACHABLE);
    finish(&w);
}

static void test_doctor(void **state)
{
    (void) state;
    static const char good[] =
        "{\"backends\":[{\"name\":\"oci\",\"findings\":["
        "{\"level\":\"ok\",\"subject\":\"kernel\",\"text\":\"6.1\"},"
        "{\"level\":\"warn\",\"subject\":\"a\",\"text\":\"one two three four five six seven eight "
        "nine ten eleven twelve thirteen fourteen fifteen\\u001b[2J\"}]},"
        "{\"name\":\"sim:\",\"findings\":[]}],\"ok\":true}";
    static const char bad[] =
        "{\"backends\":[{\"name\":\"oci\",\"findings\":[{\"level\":\"fail\",\"subject\":\"runtime\","
        "\"text\":\"none\"}]}],\"ok\":false}";
    struct fixture w = {0};

    will_answer(&w, 200, good);
    RUN(&w, "doctor");
    assert_int_equal(w.code, CLI_OK);
    expect_request(&w, 0, "GET /v1/doctor HTTP/1.1\r\n", "");
    assert_true(strncmp(w.out, "oci\n  ok    kernel  6.1\n  warn  a       one two", 47) == 0);
    assert_non_null(strstr(w.out, "fifteen?[2J\n"));
    assert_non_null(strstr(w.out, "sim:\n  ok    nothing is needed\n"));
    finish(&w);

    will_answer(&w, 200, bad);
    RUN(&w, "doctor");
    assert_int_equal(w.code, CLI_FAILED);
    assert_string_equal(w.out, "oci\n  FAIL  runtime  none\n");
    finish(&w);
    will_answer(&w, 200, bad);
    RUN(&w, "doctor", "--json");
    assert_int_equal(w.code, CLI_FAILED);
    assert_int_equal(strlen(w.out), strlen(bad) + 1);
    finish(&w);
    will_answer(&w, 200, "{}");
    RUN(&w, "doctor");
    assert_int_equal(w.code, CLI_FAILED);
    assert_non_null(strstr(w.err, "malformed response"));
    finish(&w);
}

static void test_network(void **state)
{
    (void) state;
    struct fixture w = {0};

    will_answer(&w, 200, "{\"sandbox_id\":\"ab\",\"network_allow\":[\"a.test\",\"192.0.2.0/24\"]}");
    RUN(&w, "network", "ab", "a.test", "192.0.2.0/24");
    expect_request(&w, 0, "POST /v1/sandboxes/ab/network HTTP/1.1\r\n",
                   "{\"allow\":[\"a.test\",\"192.0.2.0/24\"]}");
    assert_string_equal(w.out, "ab reaches only a.test 192.0.2.0/24\n");
    finish(&w);

    will_answer(&w, 200, "{\"sandbox_id\":\"ab\",\"network_allow\":[]}");
    RUN(&w, "network", "ab");
    expect_request(&w, 0, "POST /v1/sandboxes/ab/network HTTP/1.1\r\n", "{\"allow\":[]}");
    assert_string_equal(w.out, "ab reaches nothing\n");
    finish(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_network),    cmocka_unit_test(test_acquire),
        cmocka_unit_test(test_exit_codes), cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_usage),      cmocka_unit_test(test_lease_commands),
        cmocka_unit_test(test_ls),         cmocka_unit_test(test_pool),
        cmocka_unit_test(test_operating),  cmocka_unit_test(test_events),
        cmocka_unit_test(test_doctor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
