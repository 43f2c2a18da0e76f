/* What passes the proxy: addresses are split without decoding, the rest stays what was sent, headers
 * of the connection and secrets stay behind. */
#include <stdio.h>
#include <string.h>

#include "box/proxy_head.h"
#include "tests/lib/unit.h"

#define CAP "0123456789abcdef0123456789abcdef"

static void addresses(void **state)
{
    static const struct {
        const char *target;
        const char *id; /* NULL: none of ours */
        const char *capability;
        const char *rest;
        const char *rest_of_capability;
    } rows[] = {
        {"/s/a/" CAP "/v1/x?y=1", "a", CAP, "/" CAP "/v1/x?y=1", "/v1/x?y=1"},
        {"/s/a/" CAP, "a", CAP, "/" CAP, ""},
        {"/s/a/" CAP "?q", "a", CAP, "/" CAP "?q", "?q"},
        {"/s/a/" CAP "/../b", "a", CAP, "/" CAP "/../b", "/../b"},
        {"/s/a/" CAP "//x", "a", CAP, "/" CAP "//x", "//x"},
        {"/s/a/" CAP "0/x", "a", "", "/" CAP "0/x", NULL},
        {"/s/a.b_c-1/v1/sandbox", "a.b_c-1", "", "/v1/sandbox", NULL},
        {"/s/a", "a", "", "", NULL},
        {"/s/a?x", "a", "", "?x", NULL},
        {"/s/", NULL, NULL, NULL, NULL},
        {"/s//x", NULL, NULL, NULL, NULL},
        {"/s/%61/x", NULL, NULL, NULL, NULL},
        {"/s/a b/x", NULL, NULL, NULL, NULL},
        {"/%73/a/x", NULL, NULL, NULL, NULL},
        {"/x/a", NULL, NULL, NULL, NULL},
        {"", NULL, NULL, NULL, NULL},
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct proxy_target t;

        assert_int_equal(proxy_split(rows[i].target, &t), rows[i].id != NULL);
        if (rows[i].id == NULL)
            continue;
        assert_string_equal(t.id, rows[i].id);
        assert_string_equal(t.capability, rows[i].capability);
        assert_string_equal(t.rest, rows[i].rest);
        if (rows[i].rest_of_capability == NULL)
            assert_null(t.rest_of_capability);
        else
            assert_string_equal(t.rest_of_capability, rows[i].rest_of_capability);
    }
}

static void longest_id(void **state)
{
    struct proxy_target t;
    char target[80];

    (void) state;
    (void) snprintf(target, sizeof(target), "/s/%064d/x", 0);
    assert_true(proxy_split(target, &t));
    (void) snprintf(target, sizeof(target), "/s/%065d/x", 0);
    assert_false(proxy_split(target, &t));
}

static void urls(void **state)
{
    static const struct {
        const char *box;
        const char *rest;
        const char *want; /* NULL: refused */
    } rows[] = {
        {"http://127.0.0.1:1", "/v1/x?a=b", "http://127.0.0.1:1/v1/x?a=b"},
        {"http://127.0.0.1:1", "", "http://127.0.0.1:1/"},
        {"http://127.0.0.1:1/", "?a", "http://127.0.0.1:1/?a"},
        {"http://127.0.0.1:1/b/7/", "/x", "http://127.0.0.1:1/b/7/x"},
        {"http://127.0.0.1:1", "/../%2e%2E/./x//y", "http://127.0.0.1:1/../%2e%2E/./x//y"},
        {"http://127.0.0.1:1", "//evil.example/x", "http://127.0.0.1:1//evil.example/x"},
        {"http://127.0.0.1:1", "/http://evil/@x:y", "http://127.0.0.1:1/http://evil/@x:y"},
        {"http://127.0.0.1:1", "/a b", NULL},
        {"http://127.0.0.1:1", "/a\r\nX: y", NULL},
        {"http://127.0.0.1:1", "/a\x7f", NULL},
        {"http://127.0.0.1:1", "/\xc3\xa4", NULL},
        {"http://127.0.0.1:1", "/a#b", NULL},
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf url;

        buf_init(&url, 1000);
        assert_int_equal(proxy_url(rows[i].box, rows[i].rest, &url), rows[i].want != NULL);
        if (rows[i].want != NULL)
            assert_string_equal(buf_str(&url), rows[i].want);
        buf_fini(&url);
    }
}

static void headers(void **state)
{
    static const char *const kept[] = {"Connection",        "keep-alive",    "TE",
                                       "trailer",           "Upgrade",       "PROXY-Connection",
                                       "Transfer-Encoding", "Content-Length"};
    static const char *const secret[] = {"authorization", "x-api-key", "X-AIO-API-KEY", "Host",
                                         "Expect"};
    static const char *const passed[] = {"Accept", "Cookie", "Content-Type", "X-Anything", "Range"};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        assert_false(proxy_passes_request(kept[i]));
        assert_false(proxy_passes_answer(kept[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(secret); i++)
        assert_false(proxy_passes_request(secret[i]));
    for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
        assert_true(proxy_passes_request(passed[i]));
        assert_true(proxy_passes_answer(passed[i]));
    }
    assert_false(
        proxy_passes_answer("service-worker-allowed")); /* it would be for other boxes, too */
    assert_false(proxy_passes_answer("NEL"));
    assert_false(proxy_passes_answer("report-to"));
    assert_false(proxy_passes_answer("Strict-Transport-Security"));
    assert_false(proxy_passes_answer("Clear-Site-Data"));
    assert_false(proxy_passes_answer("alt-svc"));
    assert_true(proxy_passes_answer("Reporting-Endpoints")); /* of one page */
    assert_true(proxy_passes_request("Service-Worker"));
    assert_false(proxy_passes_answer(""));
    assert_false(proxy_passes_answer("a b"));
}

/* A browser's token is for the daemon alone. */
static void protocols(void **state)
{
    static const char *const rows[][2] = {
        {"sandpool.v1, sandpool.bearer.YWJj", "sandpool.v1"},
        {"sandpool.bearer.YWJj,chat , superchat", "chat, superchat"},
        {"sandpool.bearer.YWJj", ""},
        {"\tsandpool.bearer.YWJj\t, sandpool.bearer.,sandpool.bearer", "sandpool.bearer"},
        {"", ""},
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;

        buf_init(&out, 256);
        proxy_put_protocols(&out, rows[i][0]);
        assert_string_equal(buf_str(&out), rows[i][1]);
        buf_fini(&out);
    }
}

static void lists(void **state)
{
    (void) state;
    assert_true(proxy_names("close", "Close"));
    assert_true(proxy_names("keep-alive, X-Secret ,y", "x-secret"));
    assert_false(proxy_names("keep-alive, X-Secrets", "x-secret"));
    assert_false(proxy_names(" , ,", "x"));
    assert_false(proxy_names("", "x"));
}

static void lines(void **state)
{
    char text[] = "A: 1\nB:2\nnocolon\n: x\nC:  y:z";
    static const char *const want[][2] = {
        {"A", "1"}, {"B", "2"}, {"nocolon", ""}, {"", "x"}, {"C", "y:z"}};
    char *at = text;
    char *name;
    char *value;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_true(proxy_next_line(&at, &name, &value));
        assert_string_equal(name, want[i][0]);
        assert_string_equal(value, want[i][1]);
    }
    assert_false(proxy_next_line(&at, &name, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses), cmocka_unit_test(longest_id), cmocka_unit_test(urls),
        cmocka_unit_test(headers),   cmocka_unit_test(protocols),  cmocka_unit_test(lists),
        cmocka_unit_test(lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
