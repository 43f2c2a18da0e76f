/* Streams of events through the proxy: where the last whole one ends, and the one that is added. */
#include <string.h>

#include "box/proxy_events.h"
#include "tests/lib/unit.h"

static void kinds(void **state)
{
    (void) state;
    assert_int_equal(proxy_stream_of("text/event-stream"), PROXY_SSE);
    assert_int_equal(proxy_stream_of("Text/Event-Stream; charset=utf-8"), PROXY_SSE);
    assert_int_equal(proxy_stream_of("application/x-ndjson;x"), PROXY_LINES);
    assert_int_equal(proxy_stream_of("application/json"), PROXY_BYTES);
    assert_int_equal(proxy_stream_of("text/event-streams"), PROXY_BYTES);
    assert_int_equal(proxy_stream_of("text/event"), PROXY_BYTES);
    assert_int_equal(proxy_stream_of(""), PROXY_BYTES);
}

static void check(enum proxy_stream kind, const char *text, size_t want, bool want_end)
{
    bool is_end = !want_end;

    assert_int_equal(proxy_whole_events(kind, text, strlen(text), &is_end), want);
    assert_int_equal(is_end, want_end);
}

static void whole_events(void **state)
{
    (void) state;
    check(PROXY_SSE, "", 0, false);
    check(PROXY_SSE, "\n", 0, false);
    check(PROXY_SSE, "\n\n", 2, false);
    check(PROXY_SSE, "event: a\ndata: 1\n", 0, false);
    check(PROXY_SSE, "event: a\ndata: 1\n\n", 18, false);
    check(PROXY_SSE, "event: a\ndata: 1\n\nevent: end\ndata: 2\n", 18, false);
    check(PROXY_SSE, "event: a\ndata: 1\n\nevent: end\ndata: 2\n\n", 38, true);
    check(PROXY_SSE, "event: end\ndata: 2\n\n", 20, true);
    check(PROXY_SSE, "event: end\ndata: 2\n\n:\n\n", 23, false);
    check(PROXY_SSE, "data: event: end\n\n", 18, false);
    check(PROXY_LINES, "", 0, false);
    check(PROXY_LINES, "{\"a\":1}", 0, false);
    check(PROXY_LINES, "{\"a\":1}\n{\"b", 8, false);
    check(PROXY_LINES, "{\"a\":1}\n{\"event\":\"end\",\"x\":1}\n", 30, true);
    check(PROXY_LINES, "{\"event\":\"ended\"}\n", 18, false);
}

static void the_end(void **state)
{
    struct buf b;

    (void) state;
    buf_init(&b, 1024);
    proxy_put_end(PROXY_SSE, "sandbox_lost", "a \"b\"\n", &b);
    assert_string_equal(buf_str(&b),
                        "event: end\ndata: {\"outcome\":\"sandbox_lost\",\"exit_code\":null,"
                        "\"signal\":null,\"message\":\"a \\\"b\\\"\\n\"}\n\n");
    check(PROXY_SSE, buf_str(&b), b.len, true);
    buf_reset(&b);
    proxy_put_end(PROXY_LINES, "transport_lost", "c", &b);
    assert_string_equal(buf_str(&b),
                        "{\"event\":\"end\",\"outcome\":\"transport_lost\",\"exit_code\":"
                        "null,\"signal\":null,\"message\":\"c\"}\n");
    check(PROXY_LINES, buf_str(&b), b.len, true);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kinds), cmocka_unit_test(whole_events),
                                       cmocka_unit_test(the_end)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
