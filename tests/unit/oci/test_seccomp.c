/* The list of system calls keeps its promises on paper (test_box_rules.py tries them in a box). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "oci/seccomp.h"

#define TEXT_MAX ((size_t) 1 << 20)

static int set_up(void **state)
{
    struct json_out o;
    struct buf text;
    struct err err = {0};

    buf_init(&text, TEXT_MAX);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    oci_seccomp_put(&o, "seccomp", "/mnt/netlink.sock");
    json_end(&o);
    json_out_finish(&o, &text);
    assert_false(buf_failed(&text));
    *state = json_parse(buf_str(&text), text.len, TEXT_MAX, &err);
    buf_fini(&text);
    if (*state == NULL)
        fail_msg("%s", err.msg);
    return 0;
}

static int tear_down(void **state)
{
    *state = json_doc_free(*state);
    return 0;
}

static const struct json *rules_of(const struct json_doc *doc)
{
    return json_get(json_get(json_root(doc), "seccomp"), "syscalls");
}

static const char *text_at(const struct json *v, const char *key)
{
    const char *text = json_str(json_get(v, key));
    return text != NULL ? text : "(none)";
}

static uint64_t number_at(const struct json *v, const char *key)
{
    uint64_t n = 0;

    assert_true(json_u64(json_get(v, key), &n));
    return n;
}

static bool has_item(const struct json *list, const char *text)
{
    for (size_t i = 0; i < json_len(list); i++) {
        if (strcmp(json_str(json_at(list, i)), text) == 0)
            return true;
    }
    return false;
}

/* How a rule about `name` ends, "" when there is none. */
static const char *action_of(const struct json *rules, const char *name,
                             const struct json **ret_rule)
{
    for (size_t i = 0; i < json_len(rules); i++) {
        if (has_item(json_get(json_at(rules, i), "names"), name)) {
            *ret_rule = json_at(rules, i);
            return text_at(*ret_rule, "action");
        }
    }
    return "";
}

static void no_refused_call_is_allowed(void **state)
{
    const struct json *rules = rules_of(*state);
    const struct json *rule = NULL;
    unsigned count = 0;

    assert_string_equal(text_at(json_get(json_root(*state), "seccomp"), "defaultAction"),
                        "SCMP_ACT_ERRNO");
    for (unsigned i = 0; oci_seccomp_refused(i) != NULL; i++) {
        const char *names = oci_seccomp_refused(i);
        while (*names != '\0') {
            char name[64];
            size_t len = strcspn(names, " ");
            assert_true(str_copy_n(name, sizeof(name), names, len));
            const char *action = action_of(rules, name, &rule);
            if (action[0] != '\0') {
                assert_string_equal(action, "SCMP_ACT_ERRNO");
                assert_int_equal(number_at(rule, "errnoRet"), 38);
            }
            count++;
            names += len + (names[len] == ' ');
        }
    }
    assert_true(count > 50);
    assert_string_equal(action_of(rules, "clone3", &rule), "SCMP_ACT_ERRNO");
    assert_string_equal(action_of(rules, "openat", &rule), "SCMP_ACT_ALLOW");
    assert_null(json_get(rule, "args"));
}

/* Decided by arguments: no rule of these may be without one. A name in two places of the lists would
 * undo the condition. The upper half of an argument decides nothing, and no argument counts twice. */
static void conditions_have_no_way_round(void **state)
{
    const struct json *rules = rules_of(*state);
    static const char *const names[] = {"clone",      "unshare", "personality", "socket",
                                        "socketpair", "ioctl",   "prctl",       "setsockopt"};

    for (size_t n = 0; n < ARRAY_LEN(names); n++) {
        unsigned count = 0;
        for (size_t i = 0; i < json_len(rules); i++) {
            const struct json *args = json_get(json_at(rules, i), "args");
            uint64_t seen = 0;

            if (!has_item(json_get(json_at(rules, i), "names"), names[n]))
                continue;
            count++;
            assert_int_equal(json_len(json_get(json_at(rules, i), "names")), 1);
            assert_in_range(json_len(args), 1, 2);
            for (size_t a = 0; a < json_len(args); a++) {
                uint64_t bit = UINT64_C(1) << number_at(json_at(args, a), "index");

                assert_string_equal(text_at(json_at(args, a), "op"), "SCMP_CMP_MASKED_EQ");
                assert_in_range(number_at(json_at(args, a), "value"), 1, UINT32_MAX);
                assert_false(seen & bit);
                seen |= bit;
            }
        }
        assert_true(count > 0);
    }
}

static bool holds(const struct json *args, const uint64_t *values)
{
    for (size_t a = 0; a < json_len(args); a++) {
        const struct json *arg = json_at(args, a);

        if ((values[number_at(arg, "index")] & number_at(arg, "value")) !=
            number_at(arg, "valueTwo"))
            return false;
    }
    return true;
}

#define ASKED (-2)
#define IGNORED (-3)

static int result_of(const struct json *rule)
{
    const char *action = text_at(rule, "action");

    if (strcmp(action, "SCMP_ACT_ALLOW") == 0)
        return 0;
    if (strcmp(action, "SCMP_ACT_NOTIFY") == 0)
        return ASKED;
    return number_at(rule, "errnoRet") == 0 ? IGNORED : (int) number_at(rule, "errnoRet");
}

/* What becomes of a call: 0 when it is allowed, ASKED, IGNORED, or its error. Rules that disagree are a
 * mistake. */
static int outcome(const struct json *rules, const char *name, uint64_t first, uint64_t second,
                   uint64_t third)
{
    const uint64_t values[] = {first, second, third};
    int found = -1;

    for (size_t i = 0; i < json_len(rules); i++) {
        const struct json *rule = json_at(rules, i);

        if (!has_item(json_get(rule, "names"), name) || !holds(json_get(rule, "args"), values))
            continue;
        assert_true(found == -1 || found == result_of(rule));
        found = result_of(rule);
    }
    return found == -1 ? EPERM : found;
}

/* (cmd & 0xffffffff) == TIOCSTI matches none of the rules, its neighbours and the usual ones do. */
static void one_ioctl_is_missing(void **state)
{
    const struct json *rules = rules_of(*state);
    static const uint64_t cmds[] = {0x5412, 0x100005412, 0x5413, 0x5410, 0x5401, 0, 0xffffffff};

    for (size_t c = 0; c < ARRAY_LEN(cmds); c++)
        assert_int_equal(outcome(rules, "ioctl", 3, cmds[c], 0),
                         (cmds[c] & 0xffffffff) == 0x5412 ? EPERM : 0);
}

static void no_socket_option_loads_a_program(void **state)
{
    const struct json *rules = rules_of(*state);
    const uint64_t high = UINT64_C(1) << 32;

    for (uint64_t name = 0; name < 128; name++) {
        bool is_program = name == 26 || (name >= 50 && name <= 52);

        int expected = is_program ? EPERM : name == 13 ? IGNORED : 0; /* SO_LINGER */

        assert_int_equal(outcome(rules, "setsockopt", 3, 1, name), expected);
        assert_int_equal(outcome(rules, "setsockopt", 3, 1 | high, name | high), expected);
        assert_int_equal(outcome(rules, "setsockopt", 3, 17, name), 0);
    }
    for (uint64_t level = 0; level < 512; level++)
        assert_int_equal(outcome(rules, "setsockopt", 3, level, 26), level == 1 ? EPERM : 0);
    for (uint64_t option = 0; option < 256; option++) {
        assert_int_equal(outcome(rules, "prctl", option, 2, 0), option == 22 ? EINVAL : 0);
        assert_int_equal(outcome(rules, "prctl", option | high, 2, 0), option == 22 ? EINVAL : 0);
    }
}

/* Memberships are kept in memory that is charged to nobody. */
static void no_socket_option_joins_a_group(void **state)
{
    const struct json *rules = rules_of(*state);
    const uint64_t high = UINT64_C(1) << 32;

    for (uint64_t name = 0; name < 128; name++) {
        bool is_of_both = name == 42 || name == 46 || name == 48;
        bool is_of_ip = is_of_both || name == 35 || name == 39 || name == 41;
        bool is_of_ipv6 = is_of_both || name == 20 || name == 27;

        assert_int_equal(outcome(rules, "setsockopt", 3, 0, name), is_of_ip ? EPERM : 0);
        assert_int_equal(outcome(rules, "setsockopt", 3, 41, name | high), is_of_ipv6 ? EPERM : 0);
    }
}

static void netlink_is_asked_for(void **state)
{
    const struct json *seccomp = json_get(json_root(*state), "seccomp");
    const struct json *rules = rules_of(*state);
    const uint64_t high = UINT64_C(1) << 32;

    assert_string_equal(text_at(seccomp, "listenerPath"), "/mnt/netlink.sock");
    for (uint64_t family = 0; family < 64; family++) {
        int expected = family == 1 || family == 2 || family == 10 ? 0 : EPERM;

        expected = family == 16 ? ASKED : expected;
        assert_int_equal(outcome(rules, "socket", family, 3, 0), expected);
        assert_int_equal(outcome(rules, "socket", family | high, 3, 0), expected);
    }
    /* Else libseccomp finds that rules about the same call of 32-bit x86 disagree. */
    for (size_t i = 0; !has_item(json_get(json_at(rules, i), "names"), "socketcall"); i++)
        assert_false(has_item(json_get(json_at(rules, i), "names"), "socket"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_refused_call_is_allowed), TEST(conditions_have_no_way_round),
        TEST(one_ioctl_is_missing),       TEST(no_socket_option_loads_a_program),
        TEST(one_ioctl_is_missing),       TEST(no_socket_option_joins_a_group),
        TEST(netlink_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
