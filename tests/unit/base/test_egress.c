/* Lists of what a box may reach. */
#include "base/egress.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "tests/lib/unit.h"

static uint32_t address(const char *text)
{
    struct in_addr in;

    assert_int_equal(inet_pton(AF_INET, text, &in), 1);
    return ntohl(in.s_addr);
}

static void test_what_is_no_entry(void **state)
{
    static const char *const bad[] = {
        "a..b",
        ".a",
        "a.",
        "-a.b",
        "a-.b",
        "a b",
        "*",
        "*.",
        "a.*.b",
        "**.b",
        "*a.b",
        "a/24",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.4/33",
        "1.2.3.4/8",
        "1.2.3.4/",
        "256.1.1.1",
        "::1",
        "fe80::/10",
        "a:80",
        "http://a.b",
        "1.2.3.4/08x",
        "a.b,,c.d",
        "\xc3\xa4.b",
        "a\tb",
        "0.0.0.0/-1",
        "a@b",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b",
    };
    char why[EGRESS_WHY_MAX] = "";
    char many[4 * (EGRESS_ENTRIES_MAX + 1) + 1] = "";

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (egress_check(bad[i], why))
            fail_msg("%s", bad[i]);
    assert_true(egress_check("a.b,*.a.b,A_b.C-d,1.2.3.4,1.2.3.0/24,0.0.0.0/0,host", why));
    for (size_t i = 0; i <= EGRESS_ENTRIES_MAX; i++)
        memcpy(many + 4 * i, "a.b,", 4);
    assert_false(egress_check(many, why));
    many[4 * EGRESS_ENTRIES_MAX] = '\0';
    assert_true(egress_check(many, why));
}

static void test_names(void **state)
{
    static const char list[] = "a.test,*.b.test,C.Test,10.0.0.0/8";

    (void) state;
    assert_true(egress_has_name(list, "a.test"));
    assert_true(egress_has_name(list, "c.test"));
    assert_true(egress_has_name(list, "x.b.test"));
    assert_true(egress_has_name(list, "y.x.b.test"));
    assert_false(egress_has_name(list, "b.test"));
    assert_false(egress_has_name(list, "xb.test"));
    assert_false(egress_has_name(list, "x.a.test"));
    assert_false(egress_has_name(list, "a.test.x"));
    assert_false(egress_has_name(list, ".b.test"));
    assert_false(egress_has_name(list, ""));
    assert_false(egress_has_name("", "a.test"));
}

static void test_addresses(void **state)
{
    static const char *const refused[] = {
        "0.0.0.1",        "10.1.2.3",    "100.64.0.1",      "100.100.100.200", "127.0.0.1",
        "127.9.9.9",      "169.254.0.1", "169.254.169.254", "168.63.129.16",   "172.16.0.1",
        "172.31.255.255", "192.0.0.1",   "192.168.0.1",     "198.18.0.1",      "224.0.0.1",
        "239.1.1.1",      "240.0.0.1",   "255.255.255.255"};
    static const char *const fine[] = {"1.1.1.1",        "9.255.255.255",  "11.0.0.0",
                                       "100.63.255.255", "100.128.0.0",    "172.15.0.1",
                                       "172.32.0.1",     "168.63.129.17",  "192.169.0.1",
                                       "198.20.0.1",     "223.255.255.255"};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (!egress_is_refused(address(refused[i])) ||
            egress_has_address("0.0.0.0/0,128.0.0.0/1", address(refused[i])))
            fail_msg("%s", refused[i]);
    for (size_t i = 0; i < ARRAY_LEN(fine); i++)
        if (egress_is_refused(address(fine[i])) ||
            !egress_has_address("0.0.0.0/0", address(fine[i])))
            fail_msg("%s", fine[i]);
    assert_true(egress_has_address("10.1.0.0/16", address("10.1.255.255")));
    assert_false(egress_has_address("10.1.0.0/16", address("10.2.0.0")));
    assert_true(egress_has_address("169.254.169.254", address("169.254.169.254")));
    assert_false(
        egress_has_address("8.0.0.0/6", address("10.0.0.1"))); /* wider than what is refused */
}

static void test_lists_in_lists(void **state)
{
    static const char outer[] = "a.test,*.b.test,192.0.2.0/24,10.1.0.0/16,0.0.0.0/0";
    static const char *const inside[] = {
        "",          "a.test",  "x.b.test",    "*.b.test",  "*.x.b.test",
        "192.0.2.7", "8.8.8.8", "10.1.2.0/24", "0.0.0.0/0", "a.test,192.0.2.0/25"};
    static const char *const outside[] = {"b.test",        "*.a.test",       "*.test",
                                          "x.a.test",      "10.2.0.0/16",    "10.0.0.0/8",
                                          "a.test,c.test", "169.254.169.254"};
    char why[EGRESS_WHY_MAX] = "";

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(inside); i++)
        if (!egress_is_within(inside[i], outer, why))
            fail_msg("%s", inside[i]);
    for (size_t i = 0; i < ARRAY_LEN(outside); i++)
        if (egress_is_within(outside[i], outer, why))
            fail_msg("%s", outside[i]);
    assert_false(egress_is_within("a.test,c.test", outer, why));
    assert_string_equal(why, "'c.test' is not allowed by the profile");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_entry),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_lists_in_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
