/* test_aio_text.c - the beginning and the end of a long text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "box/aio/text.h"
#include "tests/lib/unit.h"

static void test_short(void **state)
{
    struct aio_text t;

    (void) state;
    aio_text_init(&t, 10);
    aio_text_add(&t, "01234", 5);
    aio_text_add(&t, "56789", 5);
    aio_text_finish(&t);
    assert_string_equal(buf_str(&t.bytes), "0123456789");
    assert_int_equal(t.dropped, 0);
    aio_text_fini(&t);
}

static void test_long(void **state)
{
    struct aio_text t;
    char piece[16];

    (void) state;
    aio_text_init(&t, 10);
    for (int i = 0; i < 100000; i++) {
        (void) snprintf(piece, sizeof(piece), "%06d", i);
        aio_text_add(&t, piece, 6);
    }
    aio_text_finish(&t);
    assert_string_equal(buf_str(&t.bytes), "0000099999");
    assert_int_equal(t.dropped, 600000 - 10);
    aio_text_fini(&t);
}

/* No half characters at the two ends of the gap, whatever the pieces were. */
static void test_characters(void **state)
{
    static const char letter[] = "\xc3\xa9";

    (void) state;
    for (size_t max = 0; max < 16; max++) {
        struct aio_text t;

        aio_text_init(&t, max);
        for (int i = 0; i < 1000; i++)
            aio_text_add(&t, letter, 2);
        aio_text_finish(&t);
        assert_true(t.bytes.len <= max);
        assert_int_equal(t.bytes.len % 2, 0);
        assert_int_equal(t.bytes.len + t.dropped, 2000);
        for (size_t i = 0; i < t.bytes.len; i += 2)
            assert_memory_equal(t.bytes.data + i, letter, 2);
        aio_text_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
