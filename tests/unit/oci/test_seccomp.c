/* The list of system calls keeps its promises on paper (test_box_rules.py tries them in a box). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/oci/seccomp.h"
#include "base/json.h"
#include "base/str.h"
#include "tests/lib/unit.h"

#define TEXT_MAX ((size_t) 1 << 20)

static struct json_doc *rules_for(const char *guard, enum oci_sockets sockets)
{
    struct json_doc *doc;
    struct json_out o;
    struct buf text;
    struct err err = {0};

    buf_init(&text, TEXT_MAX);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    oci_seccomp_put(&o, "seccomp", guard, sockets);
    json_end(&o);
    json_out_finish(&o, &text);
    assert_false(buf_failed(&text));
    doc = json_parse(buf_str(&text), text.len, TEXT_MAX, &err);
    buf_fini(&text);
    if (doc == NULL)
        fail_msg("%s", err.msg);
    return doc;
}

static int set_up(void **state)
{
    *state = rules_for("/mnt/guard.sock", OCI_SOCKETS_COUNTED);
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

        uint64_t value = values[number_at(arg, "index")];

        if (strcmp(text_at(arg, "op"), "SCMP_CMP_GE") == 0) {
            if (value < number_at(arg, "value"))
                return false;
        } else if ((value & number_at(arg, "value")) != number_at(arg, "valueTwo")) {
            return false;
        }
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
static int outcome4(const struct json *rules, const char *name, uint64_t first, uint64_t second,
                    uint64_t third, uint64_t fourth)
{
    const uint64_t values[] = {first, second, third, fourth};
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

static int outcome(const struct json *rules, const char *name, uint64_t first, uint64_t second,
                   uint64_t third)
{
    return outcome4(rules, name, first, second, third, 0);
}

static void no_huge_pages(void **state)
{
    const struct json *rules = rules_of(*state);
    const uint64_t high = UINT64_C(1) << 40;

    for (uint64_t version = 0; version < 2; version++) {
        uint64_t call = version << 16 | 23;

        assert_int_equal(outcome4(rules, "ipc", call, 1, 1, 0x800), EPERM);
        assert_int_equal(outcome4(rules, "ipc", call, 1, 1, 0x200), 0);
        assert_int_equal(outcome4(rules, "ipc", call + 1, 1, 1, 0x800), 0);
        assert_int_equal(outcome4(rules, "ipc", call - 1, 1, 1, 0x800), 0);
    }
    assert_int_equal(outcome4(rules, "mmap", 0, 4096, 3, 0x22), 0);
    assert_int_equal(outcome4(rules, "mmap", 0, 4096, 3, 0x40022), ENOMEM);
    assert_int_equal(outcome4(rules, "mmap2", 0, 4096, 3, high | 0x54040022), ENOMEM);
    assert_int_equal(outcome(rules, "memfd_create", 0, 1, 0), 0);
    assert_int_equal(outcome(rules, "memfd_create", 0, 5, 0), EINVAL);
    assert_int_equal(outcome(rules, "shmget", 0, 1, 0x200), 0);
    assert_int_equal(outcome(rules, "shmget", 0, 1, 0xa00), ENOMEM);
}

/* These match none of the rules, whatever is in their upper half; their neighbours and the usual ones do. */
static void few_ioctls_are_missing(void **state)
{
    const struct json *rules = rules_of(*state);
    static const uint64_t refused[] = {0x5412, 0x5423, 0x8940, 0x8941, 0x8980,
                                       0x8981, 0x8982, 0x8983, 0x89a0, 0x89a1};
    static const uint64_t allowed[] = {0x5413, 0x5410, 0x5422, 0x5424, 0x893f, 0x8942,    0x897f,
                                       0x8984, 0x899f, 0x89a2, 0x5401, 0,      0xffffffff};

    for (uint64_t high = 0; high < UINT64_C(4) << 32; high += UINT64_C(1) << 32) {
        for (size_t c = 0; c < ARRAY_LEN(refused); c++)
            assert_int_equal(outcome(rules, "ioctl", 3, high | refused[c], 0), EPERM);
        for (size_t c = 0; c < ARRAY_LEN(allowed); c++)
            assert_int_equal(outcome(rules, "ioctl", 3, high | allowed[c], 0), 0);
    }
}

static void sync_is_not_done(void **state)
{
    const struct json *rules = rules_of(*state);

    assert_int_equal(outcome(rules, "sync", 0, 0, 0), IGNORED);
    assert_int_equal(outcome(rules, "syncfs", 3, 0, 0), 0);
    assert_int_equal(outcome(rules, "fsync", 3, 0, 0), 0);
}

static void no_socket_option_loads_a_program(void **state)
{
    const struct json *rules = rules_of(*state);
    const uint64_t high = UINT64_C(1) << 32;

    for (uint64_t name = 0; name < 128; name++) {
        bool is_program = name == 26 || (name >= 50 && name <= 52);

        bool is_ignored =
            name == 7 || name == 8 || name == 13; /* SO_SNDBUF, SO_RCVBUF, SO_LINGER */
        int expected = is_program ? EPERM : is_ignored ? IGNORED : 0;

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
        bool is_of_ipv6 = is_of_both || name == 20 || name == 27 || name == 32; /* flow labels */

        assert_int_equal(outcome(rules, "setsockopt", 3, 0, name), is_of_ip ? EPERM : 0);
        assert_int_equal(outcome(rules, "setsockopt", 3, 41, name | high), is_of_ipv6 ? EPERM : 0);
    }
}

static void sockets_are_asked_for(void **state)
{
    const struct json *seccomp = json_get(json_root(*state), "seccomp");
    const struct json *rules = rules_of(*state);
    const uint64_t high = UINT64_C(1) << 32;

    assert_string_equal(text_at(seccomp, "listenerPath"), "/mnt/guard.sock");
    for (uint64_t family = 0; family < 64; family++) {
        bool is_asked = family == 1 || family == 2 || family == 10 || family == 16;
        int expected = is_asked ? ASKED : EPERM;

        assert_int_equal(outcome(rules, "socket", family, 3, 0), expected);
        assert_int_equal(outcome(rules, "socket", family | high, 3, 0), expected);
    }
    assert_int_equal(outcome(rules, "connect", 3, 0, 16), ASKED);
    assert_int_equal(outcome(rules, "socketpair", 1, 1, 0), ASKED);
    /* Else libseccomp finds that rules about the same call of 32-bit x86 disagree. */
    for (size_t i = 0; !has_item(json_get(json_at(rules, i), "names"), "socketcall"); i++)
        assert_false(has_item(json_get(json_at(rules, i), "names"), "socket"));
}

/* The tables of those who wait are charged to nobody. An upper half that means nothing may give the error,
 * but lets nothing through. */
static void few_files_are_waited_for(void **state)
{
    static const char *const names[] = {"poll",     "ppoll",           "ppoll_time64", "select",
                                        "pselect6", "pselect6_time64", "_newselect"};
    static const uint64_t counts[] = {0, 1, 1024, 4095, 4096, 4097, 8192, 12288, 65536, 1 << 20};
    const struct json *rules = rules_of(*state);

    for (size_t n = 0; n < ARRAY_LEN(names); n++) {
        bool is_second = strstr(names[n], "poll") != NULL;

        for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
            uint64_t count = counts[c];
            uint64_t other = UINT64_C(0x7fff00000000); /* a pointer, beside it */

            assert_int_equal(
                outcome(rules, names[n], is_second ? other : count, is_second ? count : other, 0),
                count < 4096 ? 0 : EINVAL);
        }
        assert_int_equal(outcome(rules, names[n], UINT32_MAX, UINT32_MAX, 0), EINVAL);
        assert_int_equal(outcome(rules, names[n], 0x100001000, 0x100001000, 0), EINVAL);
    }
}

/* In the host's network sockets are the host's; and a runtime with a kernel of its own has its own limits. */
static void sockets_that_are_not_counted(void **state)
{
    static const char *const guards[] = {"/mnt/guard.sock", NULL};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(guards); i++) {
        struct json_doc *doc = rules_for(guards[i], OCI_SOCKETS_ANY);
        const struct json *rules = rules_of(doc);

        assert_int_equal(outcome(rules, "socket", 2, 1, 0), 0);
        assert_int_equal(outcome(rules, "socket", 10, 1, 0), 0);
        assert_int_equal(outcome(rules, "socket", 16, 3, 0), guards[i] != NULL ? ASKED : 0);
        assert_int_equal(outcome(rules, "connect", 3, 0, 16), 0);
        assert_int_equal(outcome(rules, "setsockopt", 3, 1, 13), IGNORED);
        doc = json_doc_free(doc);
    }
}

/* `sockets: unix`. */
static void unix_sockets_only(void **state)
{
    const uint64_t high = UINT64_C(1) << 40;
    struct json_doc *doc = rules_for("/mnt/guard.sock", OCI_SOCKETS_UNIX);
    const struct json *rules = rules_of(doc);

    (void) state;
    assert_int_equal(outcome(rules, "socket", 1, 1, 0), 0);
    assert_int_equal(outcome(rules, "socketpair", 1, 1, 0), 0);
    assert_int_equal(outcome(rules, "socket", 2, 1, 0), EAFNOSUPPORT);
    assert_int_equal(outcome(rules, "socket", 10, 2, 0), EAFNOSUPPORT);
    assert_int_equal(outcome(rules, "socket", high | 2, 1, 0), EAFNOSUPPORT);
    assert_int_equal(outcome(rules, "socketpair", 2, 1, 0), EPERM);
    doc = json_doc_free(doc);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_refused_call_is_allowed),
        TEST(conditions_have_no_way_round),
        TEST(no_huge_pages),
        TEST(few_ioctls_are_missing),
        TEST(sync_is_not_done),
        TEST(no_socket_option_loads_a_program),
        TEST(no_socket_option_joins_a_group),
        TEST(sockets_are_asked_for),
        TEST(few_files_are_waited_for),
        TEST(sockets_that_are_not_counted),
        TEST(unix_sockets_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
