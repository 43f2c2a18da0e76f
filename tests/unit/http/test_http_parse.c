/* test_http_parse.c - the pure parts: parser in every split, targets, routes, answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "http/parse.h"
#include "http/reply.h"
#include "http/router.h"
#include "http/target.h"
#include "tests/lib/unit.h"

enum { HEAD_MAX = 1024 };

static struct buf body;
static bool pauses;

static bool on_body(struct parse *p, const char *data, size_t len)
{
    (void) p;
    buf_append(&body, data, len);
    return !pauses;
}

/* Feeds in pieces that `next` chooses; returns the last result and the bytes used. */
static enum parse_result feed_in_pieces(struct parse *p, const char *data, size_t len,
                                        struct rand *random, size_t piece, size_t *ret_used)
{
    enum parse_result r = PARSE_MORE;
    size_t used = 0;

    buf_init(&body, 1024 * 1024);
    parse_start(p, HEAD_MAX);
    while (used < len || r == PARSE_PAUSED) {
        size_t n = random != NULL ? 1 + rand_below(random, 2 * piece) : piece;
        size_t took;

        r = parse_feed(p, data + used, MIN_OF(n, len - used), &took);
        used += took;
        if (r == PARSE_HEAD) {
            p->body_max = 1000;
            p->on_body = on_body;
            if (!p->has_body)
                break;
        }
        if (r == PARSE_DONE || r == PARSE_BAD)
            break;
    }
    *ret_used = used;
    return r;
}

static const struct {
    const char *text;
    const char *body; /* NULL: no body */
} good[] = {
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", NULL},
    {"GET /a/b?c=d HTTP/1.0\r\n\r\n", NULL},
    {"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "hello"},
    {"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", NULL},
    {"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
     "abcde"},
    {"POST /x HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
     "0123456789"},
    {"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""},
    {"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", NULL},
    {"PUT /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx", "x"},
};

static void check_good(struct parse *p, size_t i, struct rand *random, size_t piece)
{
    static const char next[] = "GET /next HTTP/1.1\r\n\r\n";
    char text[512];
    size_t used;
    enum parse_result r;
    int n = snprintf(text, sizeof(text), "%s%s", good[i].text, next);

    r = feed_in_pieces(p, text, (size_t) n, random, piece, &used);
    assert_int_equal(r, good[i].body != NULL ? PARSE_DONE : PARSE_HEAD);
    assert_int_equal(used, strlen(good[i].text));
    assert_string_equal(buf_str(&body), good[i].body != NULL ? good[i].body : "");
    buf_fini(&body);
}

static void test_every_split(void **state)
{
    struct parse p;
    struct rand random;

    (void) state;
    rand_seed(&random, 7);
    parse_init(&p);
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        for (int with_pauses = 0; with_pauses < 2; with_pauses++) {
            pauses = with_pauses == 1;
            for (size_t piece = 1; piece < 200; piece++)
                check_good(&p, i, NULL, piece);
            for (unsigned n = 0; n < 200; n++)
                check_good(&p, i, &random, 8);
        }
    }
    pauses = false;
    parse_fini(&p);
}

static void test_fields(void **state)
{
    static const char text[] = "DELETE http://host:1/a%20b/c?x=%31&y HTTP/1.1\r\n"
                               "X-One:   first  \t\r\nx-one: second\r\nEmpty:\r\n\r\n";
    struct parse p;
    size_t used;

    (void) state;
    parse_init(&p);
    assert_int_equal(feed_in_pieces(&p, text, strlen(text), NULL, 3, &used), PARSE_HEAD);
    assert_int_equal(p.method, HTTP_METHOD_DELETE);
    assert_string_equal(parse_text(&p, p.target), "/a%20b/c?x=%31&y");
    assert_string_equal(parse_text(&p, p.path), "/a b/c");
    assert_string_equal(parse_header(&p, "X-ONE"), "first");
    assert_string_equal(parse_header(&p, "empty"), "");
    assert_null(parse_header(&p, "X-Two"));
    assert_true(p.is_http11 && p.is_kept_alive && !p.has_body && !p.wants_continue);
    parse_fini(&p);
}

static const struct {
    const char *text;
    int error;
} bad[] = {
    {"GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nContent-Length: +5\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nContent-Length: 0x5\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nContent-Length :5\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n", SP_UNSUPPORTED},
    {"GET / HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", SP_UNSUPPORTED},
    {"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     SP_BAD_REQUEST},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nA b: c\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nA\x01: c\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nA: c\x01\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nA: b\nContent-Length: 5\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\nA: b\n\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nA: b\rc: d\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\n: x\r\n\r\n", SP_BAD_REQUEST},
    {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", SP_BAD_REQUEST},
    {"GET /a b HTTP/1.1\r\n\r\n", SP_BAD_REQUEST},
    {"GET /%zz HTTP/1.1\r\n\r\n", SP_BAD_REQUEST},
    {"GET /%00 HTTP/1.1\r\n\r\n", SP_BAD_REQUEST},
    {"GET /a%2 HTTP/1.1\r\n\r\n", SP_BAD_REQUEST},
    {"CONNECT host:80 HTTP/1.1\r\n\r\n", SP_BAD_REQUEST},
    {"FOO / HTTP/1.1\r\n\r\n", SP_BAD_REQUEST},
    {"get / HTTP/1.1\r\n\r\n", SP_BAD_REQUEST},
    {"GET / FTP/1.1\r\n\r\n", SP_BAD_REQUEST},
    {"\x16\x03\x01\x02\x01\x01\xfc\x03\x03", SP_BAD_REQUEST},
    {"GET / HTTP/1.2\r\n\r\n", SP_HTTP_VERSION},
    {"GET / HTTP/2.0\r\n\r\n", SP_HTTP_VERSION},
    {"GET / HTTP/0.9\r\n\r\n", SP_HTTP_VERSION},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", SP_HTTP_VERSION},
    {"PUT / HTTP/1.1\r\nExpect: 200-maybe\r\nContent-Length: 1\r\n\r\n", SP_EXPECTATION_FAILED},
    {"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", SP_BAD_REQUEST},
    {"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", SP_BAD_REQUEST},
    {"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n", SP_BAD_REQUEST},
    {"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n", SP_BAD_REQUEST},
    {"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n", SP_BAD_REQUEST},
    {"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n", SP_BAD_REQUEST},
    {"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n", SP_BAD_REQUEST},
};

static void test_refusals(void **state)
{
    struct parse p;
    size_t used;

    (void) state;
    parse_init(&p);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        for (size_t piece = 1; piece < 64; piece++) {
            size_t len = strlen(bad[i].text);
            enum parse_result r = feed_in_pieces(&p, bad[i].text, len, NULL, piece, &used);

            if (r != PARSE_BAD || p.error != bad[i].error)
                fail_msg("result %d error %s (%s) for %s", (int) r, sp_error_info(p.error)->name,
                         p.reason != NULL ? p.reason : "", bad[i].text);
            assert_non_null(p.reason);
            buf_fini(&body);
        }
    }
    parse_fini(&p);
}

/* `unit` repeated after `start` until the parser has had enough. */
static int error_of_flood(const char *start, const char *unit)
{
    struct parse p;
    enum parse_result r;
    size_t used;
    unsigned n = 0;

    parse_init(&p);
    parse_start(&p, HEAD_MAX);
    buf_init(&body, 1024 * 1024);
    r = parse_feed(&p, start, strlen(start), &used);
    if (r == PARSE_HEAD) {
        p.body_max = 1000;
        p.on_body = on_body;
        r = parse_feed(&p, start + used, strlen(start) - used, &used);
    }
    while (r != PARSE_BAD && n++ < 100000)
        r = parse_feed(&p, unit, strlen(unit), &used);
    assert_int_equal(r, PARSE_BAD);
    assert_true(p.text.cap < (size_t) 8 * HEAD_MAX);
    buf_fini(&body);
    parse_fini(&p);
    return p.error;
}

static void test_floods(void **state)
{
    static const char chunked[] = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    char text[128];

    (void) state;
    assert_int_equal(error_of_flood("GET /", "aaaaaaa"), SP_URI_TOO_LONG);
    assert_int_equal(error_of_flood("GET / HTTP/1.1\r\n", "a: b\r\n"), SP_HEADERS_TOO_LARGE);
    assert_int_equal(error_of_flood("GET / HTTP/1.1\r\n", "aaaaaaaa"), SP_HEADERS_TOO_LARGE);
    assert_int_equal(error_of_flood("GET / HTTP/1.1\r\na: ", "        "), SP_HEADERS_TOO_LARGE);
    assert_int_equal(error_of_flood(chunked, "10\r\n0123456789abcdef\r\n"), SP_BODY_TOO_LARGE);
    (void) snprintf(text, sizeof(text), "%s1;", chunked);
    assert_int_equal(error_of_flood(text, "extension"), SP_BAD_REQUEST);
    assert_int_equal(error_of_flood(chunked, "000000000"), SP_BAD_REQUEST);
    (void) snprintf(text, sizeof(text), "%s0\r\n", chunked);
    assert_int_equal(error_of_flood(text, "t: trailer\r\n"), SP_BAD_REQUEST);
    /* A little of extension with every byte, all the way. */
    assert_int_equal(error_of_flood(chunked, "1;abcdefgh\r\nx\r\n"), SP_BAD_REQUEST);
    /* One byte per chunk is slow but fair. */
    assert_int_equal(error_of_flood(chunked, "1\r\nx\r\n"), SP_BODY_TOO_LARGE);
}

static void test_target(void **state)
{
    char v[8];
    size_t start;

    (void) state;
    assert_true(target_query("/p?a=1&b=2&a=3", "a", v, sizeof(v)));
    assert_string_equal(v, "1");
    assert_true(target_query("/p?a=1&b=x%20y+z", "b", v, sizeof(v)));
    assert_string_equal(v, "x y z");
    assert_true(target_query("/p?%61=1", "a", v, sizeof(v)));
    assert_true(target_query("/p?a", "a", v, sizeof(v)));
    assert_string_equal(v, "");
    assert_true(target_query("/p?x=a=b&&", "x", v, sizeof(v)));
    assert_string_equal(v, "a=b");
    assert_true(target_query("/p?a=12345678", "a", v, sizeof(v)));
    assert_string_equal(v, HTTP_QUERY_BAD);
    assert_true(target_query("/p?a=%00", "a", v, sizeof(v)));
    assert_string_equal(v, HTTP_QUERY_BAD);
    assert_true(target_query("/p?a=%4", "a", v, sizeof(v)));
    assert_string_equal(v, HTTP_QUERY_BAD);
    assert_false(target_query("/p", "a", v, sizeof(v)));
    assert_false(target_query("/p?aa=1", "a", v, sizeof(v)));
    assert_true(target_origin("*", &start));
    assert_false(target_origin("/a#b", &start));
    assert_false(target_origin("http://host", &start));
    assert_false(target_origin("http://host?x=/", &start));
    assert_false(target_origin("", &start));
}

static void handle_nothing(struct http_exchange *ex)
{
    (void) ex;
}

static const struct http_route table[] = {
    {HTTP_METHOD_GET, "/", handle_nothing, 0, 0, ""},
    {HTTP_METHOD_GET, "/v1/boxes/{id}", handle_nothing, 0, 0, ""},
    {HTTP_METHOD_POST, "/v1/boxes/{id}/files/{name}", handle_nothing, 0, 0, ""},
    {HTTP_METHOD_GET, "/v1/boxes/all", handle_nothing, 0, 0, ""},
    {HTTP_METHOD_DELETE, "/v1/boxes/{id}", handle_nothing, 0, 0, ""},
    {HTTP_METHOD_GET, "/through/*", handle_nothing, HTTP_ANY, 0, ""},
    {HTTP_METHOD_GET, NULL, NULL, 0, 0, NULL},
};

static int route_index(enum http_method method, const char *target, struct router_match *m)
{
    router_find(table, "pair:", method, target, m);
    return m->route != NULL ? (int) (m->route - table) : -1;
}

static void test_router(void **state)
{
    struct router_match m;
    struct buf allow;
    char longest[300];

    (void) state;
    assert_false(router_check(table));
    assert_int_equal(route_index(HTTP_METHOD_GET, "/", &m), 0);
    assert_int_equal(route_index(HTTP_METHOD_GET, "/?a=/b", &m), 0);
    assert_int_equal(route_index(HTTP_METHOD_HEAD, "/v1/boxes/x%2Fy?z=1", &m), 1);
    assert_string_equal(m.params[0].name, "id");
    assert_string_equal(m.params[0].value, "x/y");
    assert_int_equal(route_index(HTTP_METHOD_POST, "/v1/boxes/7/files/a.txt", &m), 2);
    assert_string_equal(m.params[1].value, "a.txt");
    assert_int_equal(route_index(HTTP_METHOD_GET, "/v1/boxes/all", &m), 3);
    assert_int_equal(route_index(HTTP_METHOD_GET, "/v1/box%65s/%61ll", &m), 3);
    assert_int_equal(route_index(HTTP_METHOD_DELETE, "/v1/boxes/all", &m), 4);
    assert_int_equal(route_index(HTTP_METHOD_PUT, "/v1/boxes/x", &m), -1);
    buf_init(&allow, 100);
    router_allow(m.allowed, &allow);
    assert_string_equal(buf_str(&allow), "GET, HEAD, DELETE");
    buf_fini(&allow);
    assert_int_equal(route_index(HTTP_METHOD_GET, "/v1/boxes/", &m), -1);
    assert_int_equal(m.allowed, 0);
    assert_int_equal(route_index(HTTP_METHOD_GET, "/v1/boxes", &m), -1);
    assert_int_equal(route_index(HTTP_METHOD_GET, "/v1/boxes/x/", &m), -1);
    assert_int_equal(route_index(HTTP_METHOD_GET, "//v1/boxes/x", &m), -1);
    assert_int_equal(route_index(HTTP_METHOD_GET, "*", &m), -1);
    assert_int_equal(route_index(HTTP_METHOD_GET, "/through/", &m), 5);
    assert_int_equal(route_index(HTTP_METHOD_OTHER, "/through/a//../%00?b#/", &m), 5);
    assert_int_equal(route_index(HTTP_METHOD_DELETE, "/through/a", &m), 5);
    assert_int_equal(route_index(HTTP_METHOD_GET, "/through", &m), -1);
    memset(longest, 'x', sizeof(longest) - 1);
    memcpy(longest, "/v1/boxes/", 10);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(route_index(HTTP_METHOD_GET, longest, &m), -1);
}

/* A value of two parts is that with its slash as it is and with its slash escaped, and nothing else is. */
static void test_router_pair(void **state)
{
    static const struct {
        const char *target;
        int index;
        const char *id;
        const char *behind;
    } cases[] = {
        {"/v1/boxes/pair:a/b", 1, "pair:a/b", ""},
        {"/v1/boxes/pair:a/b?c=/d", 1, "pair:a/b", "?c=/d"},
        {"/v1/boxes/pair:a%2Fb", 1, "pair:a/b", ""},
        {"/v1/boxes/pair%3Aa/b", 1, "pair:a/b", ""},
        {"/v1/boxes/pair:a/files/files/n", 2, "pair:a/files", "/files/n"},
        {"/v1/boxes/pair:a%2Ffiles/files/n", 2, "pair:a/files", "/files/n"},
        {"/v1/boxes/pair:a/b%2Fc/files/n", 2, "pair:a/b/c",
         "/files/n"}, /* the handler refuses it */
        {"/v1/boxes/pair:a//files/n", 2, "pair:a/", "/files/n"},
        {"/v1/boxes/pair:a/", 1, "pair:a/", ""},
        {"/v1/boxes/pair:a", 1, "pair:a", ""},
        {"/v1/boxes/pairs/files/n", 2, "pairs", "/files/n"},
        {"/v1/boxes/Pair:a/files/n", 2, "Pair:a", "/files/n"},
        {"/v1/boxes/pair:/b", 1, "pair:/b", ""},
        {"/v1/boxes/pair:a/files/n", -1, NULL,
         NULL}, /* "n" of nothing: "files" belongs to the value */
        {"/v1/boxes/pair:a%2Fb/c", -1, NULL, NULL},
        {"/v1/boxes/pair:a%2F/files/n", 2, "pair:a/", "/files/n"},
        {"/v1/boxes/pair:a/%00", -1, NULL, NULL},
        {"/v1/boxes/pair:a/%zz", -1, NULL, NULL},
    };
    struct router_match m;
    char longest[400];

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum http_method method = cases[i].index == 2 ? HTTP_METHOD_POST : HTTP_METHOD_GET;

        assert_int_equal(route_index(method, cases[i].target, &m), cases[i].index);
        if (cases[i].index < 0)
            continue;
        assert_string_equal(m.params[0].value, cases[i].id);
        assert_string_equal(cases[i].target + m.params[0].end, cases[i].behind);
    }
    for (size_t len = 250; len < 300; len++) { /* around the room that a value has */
        (void) snprintf(longest, sizeof(longest), "/v1/boxes/pair:%0*d/%0*d", (int) len / 2, 1,
                        (int) (len - len / 2), 1);
        assert_int_equal(route_index(HTTP_METHOD_GET, longest, &m),
                         len + strlen("pair:/") < sizeof(m.params[0].value) ? 1 : -1);
        (void) snprintf(longest, sizeof(longest), "/v1/boxes/pair:%0*d/b", (int) len, 1);
        assert_int_equal(route_index(HTTP_METHOD_GET, longest, &m),
                         len + strlen("pair:/b") < sizeof(m.params[0].value) ? 1 : -1);
    }
    router_find(table, NULL, HTTP_METHOD_GET, "/v1/boxes/pair:a/b", &m);
    assert_null(m.route);
}

static void test_reply(void **state)
{
    struct buf out;
    struct buf headers;
    struct reply_head head = {.status = 200, .content_type = "a/b", .length = 1234567890123};

    (void) state;
    buf_init(&out, 10000);
    buf_init(&headers, 100);
    buf_puts(&headers, "X: y\r\n");
    head.headers = &headers;
    head.is_closing = true;
    reply_put_head(&out, &head);
    assert_string_equal(buf_str(&out), "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: "
                                       "1234567890123\r\nConnection: close\r\nX: y\r\n\r\n");
    buf_reset(&out);
    reply_put_error(&out, SP_PAUSED, "say \"why\"", 5);
    assert_string_equal(buf_str(&out), "{\"error\":{\"code\":\"paused\",\"message\":\"say "
                                       "\\\"why\\\"\",\"retry_after_ms\":5}}");
    for (int i = 1; i < (int) SP_ERROR_INDEX_COUNT; i++) /* every status has its words */
        assert_true(strlen(reply_status_text(reply_error_status(-i))) > 0);
    buf_fini(&headers);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split), cmocka_unit_test(test_fields),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_floods),
        cmocka_unit_test(test_target),      cmocka_unit_test(test_router),
        cmocka_unit_test(test_router_pair), cmocka_unit_test(test_reply),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
