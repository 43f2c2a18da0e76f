/* Frames of either side, as the other reads them: in one piece and byte by byte. */
#include <string.h>

#include "base/websocket.h"
#include "tests/lib/unit.h"

struct seen {
    struct websocket_reader reader;
    unsigned count;
    enum websocket_opcode opcode;
    struct buf data;
};

static bool on_message(struct websocket_reader *r, enum websocket_opcode opcode, const char *data,
                       size_t len)
{
    struct seen *s = container_of(r, struct seen, reader);

    s->count++;
    s->opcode = opcode;
    buf_reset(&s->data);
    buf_append(&s->data, data, len);
    return true;
}

static void begin(struct seen *s, bool is_client)
{
    websocket_reader_init(&s->reader, 1024 * 1024);
    s->reader.on_message = on_message;
    s->reader.is_client = is_client;
    s->count = 0;
    buf_init(&s->data, 1024 * 1024);
}

static void end(struct seen *s)
{
    websocket_reader_fini(&s->reader);
    buf_fini(&s->data);
}

static void put(struct buf *out, bool is_client, const char *data, size_t len)
{
    if (is_client) {
        websocket_put_masked(out, WEBSOCKET_BINARY, data, len);
    } else {
        websocket_put_head(out, WEBSOCKET_BINARY, len);
        buf_append(out, data, len);
    }
}

/* Lengths around those where the head gets longer. */
static void check_round_trip(bool is_client)
{
    static const size_t lengths[] = {0, 1, 125, 126, 127, 65535, 65536, 70000};
    static char data[70000];
    struct buf wire;

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char) (i * 7);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        buf_init(&wire, 1024 * 1024);
        put(&wire, is_client, data, lengths[i]);
        for (size_t step = 1; step <= wire.len; step += wire.len > 1 ? wire.len - 1 : 1) {
            struct seen s;

            begin(&s, !is_client);
            for (size_t at = 0; at < wire.len; at += step)
                assert_int_equal(websocket_feed(&s.reader, wire.data + at,
                                                step < wire.len - at ? step : wire.len - at),
                                 0);
            assert_int_equal(s.count, 1);
            assert_int_equal(s.opcode, WEBSOCKET_BINARY);
            assert_int_equal(s.data.len, lengths[i]);
            assert_memory_equal(buf_str(&s.data), data, lengths[i]);
            end(&s);
        }
        buf_fini(&wire);
    }
}

static void test_client_to_server(void **state)
{
    (void) state;
    check_round_trip(true);
}

static void test_server_to_client(void **state)
{
    (void) state;
    check_round_trip(false);
}

/* Whoever should mask must, and whoever should not must not. */
static void test_wrong_side(void **state)
{
    struct buf wire;
    struct seen s;

    (void) state;
    for (int is_client = 0; is_client < 2; is_client++) {
        buf_init(&wire, 1024);
        put(&wire, is_client, "x", 1);
        begin(&s, is_client);
        assert_int_equal(websocket_feed(&s.reader, wire.data, wire.len), WEBSOCKET_PROTOCOL);
        assert_int_equal(s.count, 0);
        end(&s);
        buf_fini(&wire);
    }
}

static void test_keys(void **state)
{
    char key[WEBSOCKET_KEY_LEN + 1];
    char other[WEBSOCKET_KEY_LEN + 1];
    char accept[WEBSOCKET_ACCEPT_LEN + 1];

    (void) state;
    websocket_make_key(key);
    websocket_make_key(other);
    assert_string_not_equal(key, other);
    assert_true(websocket_accept(key, accept));
    assert_false(websocket_accept("x", accept));
    /* the example of RFC 6455, 1.3 */
    assert_true(websocket_accept("dGhlIHNhbXBsZSBub25jZQ==", accept));
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_to_server),
        cmocka_unit_test(test_server_to_client),
        cmocka_unit_test(test_wrong_side),
        cmocka_unit_test(test_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
