/* Where boxes are found: the capability does not reveal the token and differs with all it is made of;
 * the host is one a caller can use. */
#include <string.h>

#include "base/compiler.h"
#include "box/address.h"
#include "tests/lib/unit.h"

static void capability_is_stable(void **state)
{
    char cap[BOX_CAPABILITY_LEN + 1];

    (void) state;
    /* Kept for ever: addresses that were handed out hold through upgrades. */
    box_capability("fe0dc8182dec7b77", "0123456789abcdef", cap);
    assert_string_equal(cap, "6e90b5b15943eb42bc059938ee7cccba");
}

static void capability_differs(void **state)
{
    static const struct {
        const char *id;
        const char *token;
    } of[] = {{"a", "token"}, {"b", "token"}, {"a", "token2"},
              {"at", "oken"}, {"a", ""},      {"", "a"}};
    char caps[ARRAY_LEN(of)][BOX_CAPABILITY_LEN + 1];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(of); i++) {
        box_capability(of[i].id, of[i].token, caps[i]);
        assert_int_equal(strlen(caps[i]), BOX_CAPABILITY_LEN);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(caps[i], caps[j]);
    }
}

static void hosts(void **state)
{
    static const struct {
        const char *advertise;
        const char *header;
        const char *listen;
        const char *want;
    } rows[] = {
        {"", "127.0.0.1:9", "0.0.0.0:8002", "127.0.0.1:9"},
        {"", "pool.example", "0.0.0.0:8002", "pool.example"},
        {"", NULL, "127.0.0.1:8002", "127.0.0.1:8002"},
        {"", "", "127.0.0.1:8002", "127.0.0.1:8002"},
        {"", "a b", "127.0.0.1:8002", "127.0.0.1:8002"},
        {"", "a/b", "127.0.0.1:8002", "127.0.0.1:8002"},
        {"", "u@h", "127.0.0.1:8002", "127.0.0.1:8002"},
        {"gate", "pool:1", "0.0.0.0:8002", "gate:8002"},
        {"gate:80", "pool:1", "0.0.0.0:8002", "gate:80"},
        {"[::1]", NULL, "[::]:8002", "[::1]:8002"},
        {"[::1]:80", NULL, "[::]:8002", "[::1]:80"},
        {"fe80::1", NULL, "[::]:8002", "[fe80::1]:8002"},
    };
    char host[160];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        box_host(rows[i].advertise, rows[i].header, rows[i].listen, host, sizeof(host));
        assert_string_equal(host, rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capability_is_stable),
        cmocka_unit_test(capability_differs),
        cmocka_unit_test(hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
