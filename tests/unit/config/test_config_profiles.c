/* Profiles that extend others; their labels, commands, prices, and mounts that depend on the owner. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/config/load.h"

static const char *env_of(const struct config_profile *p, const char *name)
{
    for (unsigned i = 0; i < p->env.count; i++) {
        if (strcmp(p->env.pairs[i].key, name) == 0)
            return p->env.pairs[i].value;
    }
    return NULL;
}

/* In whatever order they are written, by way of others, and of `default`. */
static void test_extends(void **state)
{
    (void) state;
    struct config *c =
        load("mounts: {allow: [/srv]}\n"
             "profiles:\n"
             "  b: {extends: a, ttl_s: 9, env: {Y: b, Z: b}, mounts: ['/srv/b:/b']}\n"
             "  c: {extends: b, limits: {cpus: 4}}\n"
             "  a:\n"
             "    extends: default\n"
             "    ttl_s: 7\n"
             "    limits: {memory: 64M, cpus: 2}\n"
             "    mounts: ['/srv/a:/a']\n"
             "    env: {X: a, Y: a}\n"
             "  default: {backend: sim, idle_timeout_s: 5}\n"
             "  d: {backend: sim}\n");
    const struct config_profile *p = config_find_profile(c, "c");

    assert_int_equal(c->profile_count, 5);
    assert_string_equal(p->name, "c");
    assert_string_equal(p->extends, "b");
    assert_string_equal(p->backend, "sim");
    assert_int_equal(p->idle_timeout_s, 5);
    assert_int_equal(p->ttl_s, 9);
    assert_int_equal(p->limits.memory, 64 << 20);
    assert_int_equal(p->limits.cpus, 4000);
    assert_string_equal(p->mounts, "/srv/b:/b");
    assert_int_equal(p->env.count, 3);
    assert_string_equal(env_of(p, "X"), "a");
    assert_string_equal(env_of(p, "Y"), "b");
    assert_string_equal(env_of(p, "Z"), "b");
    p = config_find_profile(c, "a");
    assert_int_equal(p->ttl_s, 7);
    assert_int_equal(p->limits.cpus, 2000);
    assert_string_equal(env_of(p, "Y"), "a");
    assert_null(env_of(p, "Z"));
    assert_int_equal(config_find_profile(c, "d")->idle_timeout_s, 600);
    (void) config_free(c);

    c = load("profiles: {a: {extends: default, ttl_s: 1}, b: {extends: ''}, e: {extends: ~}}");
    assert_int_equal(c->profile_count, 4);
    assert_int_equal(config_find_profile(c, "a")->ttl_s, 1);
    assert_int_equal(config_find_profile(c, "default")->ttl_s, 3600);
    (void) config_free(c);
}

/* What is inherited counts for the recipe like what is written. */
static void test_hash(void **state)
{
    (void) state;
    struct config *c = load("profiles:\n"
                            "  a: {backend: sim, env: {X: a}, user: joe}\n"
                            "  b: {extends: a, ttl_s: 7}\n"
                            "  c: {extends: a, env: {X: c}}\n");
    uint64_t a = config_spec_hash(config_find_profile(c, "a"));

    assert_true(a == config_spec_hash(config_find_profile(c, "b")));
    assert_true(a != config_spec_hash(config_find_profile(c, "c")));
    (void) config_free(c);
}

static void test_printed_again(void **state)
{
    (void) state;
    struct config *c = load("profiles: {a: {extends: b, ttl_s: 7}, b: {backend: sim, user: joe}}");
    struct buf text;

    buf_init(&text, CONFIG_FILE_MAX);
    config_print(c, &text);
    (void) config_free(c);
    c = load(buf_str(&text));
    assert_string_equal(config_find_profile(c, "a")->extends, "b");
    assert_string_equal(config_find_profile(c, "a")->user, "joe");
    assert_int_equal(config_find_profile(c, "a")->ttl_s, 7);
    buf_fini(&text);
    (void) config_free(c);
}

static void test_bad_extends(void **state)
{
    (void) state;
    expect_error("profiles: {a: {extends: b}}",
                 "t.yaml:1:25: profiles.a.extends: there is no profile 'b'");
    expect_error("profiles: {a: {extends: a}}",
                 "t.yaml:1:25: profiles.a.extends leads back to itself: a -> a");
    expect_error("profiles:\n"
                 "  a: {extends: b}\n"
                 "  b: {extends: c}\n"
                 "  c: {extends: a}\n",
                 "t.yaml:4:16: profiles.c.extends leads back to itself: a -> b -> c -> a; "
                 "2:16: profiles.a.extends leads back to itself: b -> c -> a -> b; "
                 "3:16: profiles.b.extends leads back to itself: c -> a -> b -> c");
    expect_error("profiles: {a: {extends: 'A/../b'}}",
                 "t.yaml:1:25: profiles.a.extends must be the name of a profile");
    expect_error("profiles: {a: {extends: [b]}, b: {}}",
                 "t.yaml:1:25: profiles.a.extends must be a single value");
    /* what is wrong in the base is reported there */
    expect_error(
        "profiles: {a: {extends: b}, b: {ttl_s: x}}",
        "t.yaml:1:40: profiles.b.ttl_s must be a whole number from 0 to 31622400, not 'x'");
}

/* A long chain is refused before it is followed to its end. */
static void test_long_chain(void **state)
{
    (void) state;
    enum { MANY = 200 };
    struct config *c = NULL;
    struct err err = {0};
    struct buf text;

    buf_init(&text, CONFIG_FILE_MAX);
    buf_puts(&text, "profiles:\n");
    for (unsigned i = 0; i < MANY; i++)
        buf_printf(&text, "  p%u: {extends: p%u}\n", i, i + 1);
    assert_false(buf_failed(&text));
    assert_int_equal(config_parse("t.yaml", buf_str(&text), text.len, &c, &err), SP_CONFIG);
    assert_non_null(strstr(err.msg, "profiles.p63.extends: more than 64 profiles"));
    buf_fini(&text);
}

static void test_auto(void **state)
{
    (void) state;
    struct config *c =
        load("auto: {strategy: cheapest, profiles: [b, a]}\n"
             "profiles: {a: {price: {currency: EUR}}, b: {}, c: {price: {currency: USD}}}");

    assert_int_equal(c->auto_.strategy, CONFIG_AUTO_CHEAPEST);
    assert_string_equal(c->auto_.profiles, "b,a");
    (void) config_free(c);
    expect_error("profiles: {auto: {}}",
                 "t.yaml:1:12: profiles.auto cannot be the name of a profile: acquires use it to "
                 "have one chosen");
    expect_error("auto: {profiles: [default, x]}",
                 "t.yaml:1:8: auto.profiles has 'x', which is not the name of a profile");
    expect_error("auto: {strategy: cheapest}\n"
                 "profiles: {a: {price: {currency: EUR}}, c: {price: {currency: USD}}}",
                 "t.yaml:1:18: auto.strategy cheapest needs profiles with prices in one currency");
}

static void test_labels(void **state)
{
    (void) state;
    struct config *c = load("profiles: {a: {labels: {gpu: none, 'org/tier': ''}},\n"
                            "           b: {extends: a, labels: {gpu: 'a100'}}}");
    const struct config_profile *p = config_find_profile(c, "b");

    assert_int_equal(p->labels.count, 2);
    assert_string_equal(p->labels.pairs[0].value, "a100");
    assert_string_equal(p->labels.pairs[1].key, "org/tier");
    assert_true(config_spec_hash(p) == config_spec_hash(config_find_profile(c, "default")));
    (void) config_free(c);
    expect_error("profiles: {a: {labels: {'a b': x}}}",
                 "t.yaml:1:32: profiles.a.labels.a b must be up to 64 letters, digits and . _ - /, "
                 "its name too");
    expect_error("profiles: {a: {labels: {a: 'x,y'}}}",
                 "t.yaml:1:28: profiles.a.labels.a must be up to 64 letters, digits and . _ - /, "
                 "its name too");
}

static void test_commands(void **state)
{
    (void) state;
    struct config *c = load("profiles:\n"
                            "  a:\n"
                            "    setup: {command: 'echo $$HOME'}\n"
                            "    warm_up:\n"
                            "      command: |\n"
                            "        a\n"
                            "        \tb\n");
    const struct config_profile *p = config_find_profile(c, "a");

    assert_string_equal(p->setup.command, "echo $HOME");
    assert_string_equal(p->warm_up.command, "a\n\tb\n");
    assert_int_equal(p->warm_up.timeout_s, 60);
    (void) config_free(c);
    expect_error(
        "profiles: {a: {backend: sim, warm_up: {command: x}}}",
        "t.yaml:1:49: profiles.a.warm_up.command is for boxes with our agent: backend oci, "
        "or docker with `agent: inject`");
    expect_error("profiles: {a: {user: \"a\\nb\"}}",
                 "t.yaml:1:22: profiles.a.user has a control character in it");
    expect_error("profiles: {a: {setup: {command: \"a\\rb\"}}}",
                 "t.yaml:1:33: profiles.a.setup.command has a control character in it");
}

static void test_templates(void **state)
{
    (void) state;
    static const char *const ids[CONFIG_ID_COUNT] = {"ana@x.org", "..", "fe0d", "1000"};
    static const struct {
        const char *name; /* of the thread */
        const char *part; /* NULL: refused */
    } names[] = {
        {"t1", "t1"},
        {"a.b", "a.b"},
        {".", "%2E"},
        {"..", "%2E."},
        {"...", "%2E.."},
        {".x", "%2Ex"},
        {"a/b", "a%2Fb"},
        {"/", "%2F"},
        {"%2E", "%252E"},
        {"a b", "a%20b"},
        {"\xc3\xa9", "%C3%A9"},
        {"a\nb", "a%0Ab"},
        {"{user_id}", "%7Buser_id%7D"},
        {"", NULL},
    };
    char path[CONFIG_PATH_MAX + 1];
    char want[CONFIG_PATH_MAX + 1];
    char longest[400];

    assert_null(
        config_template_path("/d/{user_id}/{thread_id}/x/{sandbox_id}/{principal}", ids, path));
    assert_string_equal(path, "/d/ana@x.org/%2E./x/fe0d/1000");
    config_template_base("/d/e/{user_id}/f", path);
    assert_string_equal(path, "/d/e");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *const some[CONFIG_ID_COUNT] = {"u", names[i].name, "s", "p"};
        const char *why = config_template_path("/d/{user_id}/{thread_id}", some, path);

        assert_true((why == NULL) == (names[i].part != NULL));
        if (why != NULL)
            continue;
        (void) snprintf(want, sizeof(want), "/d/u/%s", names[i].part);
        assert_string_equal(path, want);
        assert_true(config_path_is_plain(path));
    }
    for (size_t len = 1; len < sizeof(longest); len++) { /* whole, or not at all */
        const char *const some[CONFIG_ID_COUNT] = {"u", longest, "s", "p"};

        memset(longest, len % 2 == 0 ? 'x' : '/', len);
        longest[len] = '\0';
        bool fits = 5 + len * (len % 2 == 0 ? 1 : 3) <= CONFIG_PATH_MAX;
        assert_true((config_template_path("/d/{user_id}/{thread_id}", some, path) == NULL) == fits);
        assert_true(!fits || strlen(path) == 5 + len * (len % 2 == 0 ? 1 : 3));
    }
}

static void test_template_mounts(void **state)
{
    (void) state;
    struct config *c =
        load("mounts: {allow: [/srv]}\n"
             "provisioner: {thread_data: '/srv/deer/{user_id}/{thread_id}'}\n"
             "profiles:\n"
             "  a: {mounts: ['/srv/sets:/sets:ro', '/srv/data/{user_id}/{thread_id}:/data']}\n"
             "  b: {extends: a, mounts: ['/srv/data/{user_id}:/home/user/keep:ro']}\n"
             "  c: {mounts: ['/srv/boxes/{sandbox_id}:/data']}\n");
    const char *list = config_find_profile(c, "a")->mounts;
    char text[CONFIG_CLOSED_TEXT];
    struct config_mount m;

    assert_true(config_mount_next(&list, &m));
    assert_false(m.is_template);
    assert_true(m.is_read_only);
    assert_string_equal(m.box_path, "/sets");
    assert_true(config_mount_next(&list, &m));
    assert_true(m.is_template);
    assert_false(m.is_read_only);
    assert_string_equal(m.host_path, "/srv/data/{user_id}/{thread_id}");
    assert_false(config_mount_next(&list, &m));
    (void) config_closed_text(c, text);
    assert_string_equal(text, "/srv/deer\n/srv/data\n/srv/boxes");
    assert_true(config_mount_is_closed(c, "/srv/data/ana"));
    assert_true(config_mount_is_closed(c, "/srv"));
    assert_false(config_mount_is_closed(c, "/srv/database"));
    (void) config_free(c);
}

static void expect_mount_error(const char *mount, const char *why)
{
    char text[512];
    char message[512];

    (void) snprintf(text, sizeof(text), "mounts: {allow: [/srv]}\nprofiles: {a: {mounts: ['%s']}}",
                    mount);
    (void) snprintf(message, sizeof(message), "t.yaml:2:16: profiles.a.mounts entry '%.64s' %s",
                    mount, why);
    expect_error(text, message);
}

static void test_bad_templates(void **state)
{
    (void) state;
    static const char whole[] =
        "may have {user_id}, {thread_id}, {sandbox_id} and {principal}, each as "
        "a whole part of the path";

    expect_mount_error("/srv/{user}:/a", whole);
    expect_mount_error("/srv/x-{user_id}:/a", whole);
    expect_mount_error("/srv/{user_id}{thread_id}:/a", whole);
    expect_mount_error("/srv/}:/a", whole);
    expect_mount_error("/{user_id}/x:/a", "must begin with an existing directory");
    expect_mount_error(
        "/srv/{thread_id}:/a",
        "has {thread_id} and needs {user_id}, too: users may name their threads alike");
    expect_mount_error("/home/{user_id}:/a", "is not below any of mounts.allow");
    expect_mount_error("/srv/../{user_id}:/a",
                       "needs absolute paths without '..', '.' and double or trailing slashes");
    expect_error(
        "mounts: {allow: [/srv]}\n"
        "profiles: {a: {mounts: ['/srv/{user_id}:/a', '/srv/x/{sandbox_id}:/b']}}",
        "t.yaml:2:1: profiles has data of threads in '/srv' and in '/srv/x', which is in it");
}

static void expect_quote(const char *limits, const char *price, uint64_t seconds,
                         const uint64_t parts[CONFIG_RATE_COUNT], const char *total)
{
    char text[512];
    char shown[CONFIG_MICROS_MAX];
    struct config_quote quote;
    struct config *c;
    uint64_t sum = 0;

    (void) snprintf(text, sizeof(text),
                    "profiles: {default: {limits: {%s}, price: {currency: EUR, %s}}}", limits,
                    price);
    c = load(text);
    assert_true(config_quote(&c->profiles[0], seconds, &quote));
    for (unsigned i = 0; i < CONFIG_RATE_COUNT; i++) {
        assert_int_equal(quote.parts[i], parts[i]);
        sum += parts[i];
    }
    assert_true(sum == quote.total);
    config_print_micros(quote.total, shown);
    assert_string_equal(shown, total);
    (void) config_free(c);
}

#define PARTS(...) ((const uint64_t[CONFIG_RATE_COUNT]){__VA_ARGS__})

static void test_quote(void **state)
{
    (void) state;
    static const char all[] =
        "per_start: 0.001, per_hour: 0.05, per_cpu_hour: 0.02, per_gb_hour: 0.005, "
        "per_disk_gb_hour: 0.0001";
    static const char most[] =
        "per_start: 10000, per_hour: 10000, per_cpu_hour: 10000, per_gb_hour: 10000, "
        "per_disk_gb_hour: 10000";

    expect_quote("cpus: 1.5, memory: 512M, disk: 10G", all, 3600,
                 PARTS(1000, 50000, 30000, 2500, 1000), "0.0845");
    expect_quote("cpus: 1.5, memory: 512M, disk: 10G", all, 0, PARTS(1000, 0, 0, 0, 0), "0.001");
    /* 50000 / 3600 = 13.9, 30000 / 3600 = 8.3, 2500 / 3600 = 0.7, 1000 / 3600 = 0.3 */
    expect_quote("cpus: 1.5, memory: 512M, disk: 10G", all, 1, PARTS(1000, 14, 8, 1, 0),
                 "0.001023");
    expect_quote("cpus: 1", "per_hour: 0.000001", 1799, PARTS(0, 0, 0, 0, 0), "0");
    expect_quote("cpus: 1", "per_hour: 0.000001", 1800, PARTS(0, 1, 0, 0, 0), "0.000001");
    expect_quote("cpus: 0, memory: 0, disk: 0", "per_hour: 3", 7200, PARTS(0, 6000000, 0, 0, 0),
                 "6");
    expect_quote("cpus: 1", "per_hour: 0", 7200, PARTS(0, 0, 0, 0, 0), "0");
    /* what is used is not known before */
    expect_quote("cpus: 0",
                 "per_hour: 3, per_used_cpu_hour: 5, per_used_gb_hour: 6, per_used_net_gb: 7, "
                 "per_used_disk_gb: 8",
                 3600, PARTS(0, 3000000), "3");
    /* the dearest and largest box for the longest time */
    expect_quote("cpus: 1024, memory: 1T, disk: 64T", most, 31622400,
                 PARTS(10000000000, 87840000000000, 89948160000000000, 89948160000000000,
                       5756682240000000000),
                 "5936666410000");
}

static void test_bad_prices(void **state)
{
    (void) state;
    struct config_quote quote;
    struct config *c = load("");

    assert_false(config_quote(&c->profiles[0], 3600, &quote));
    assert_int_equal(quote.total, 0);
    (void) config_free(c);
    expect_error(
        "{usage: {sample_s: 0}, profiles: {a: {price: {currency: EUR, per_used_net_gb: 1}}}}",
        "t.yaml:1:79: profiles.a.price.per_used_net_gb needs usage.sample_s");
    expect_error("profiles: {a: {price: {per_hour: 1}}}",
                 "t.yaml:1:16: profiles.a.price.currency must be given with a price");
    expect_error("profiles: {a: {price: {currency: eur}}}",
                 "t.yaml:1:34: profiles.a.price.currency must be three to eight capital letters, "
                 "like EUR");
    expect_error("profiles: {a: {limits: {memory: 0}, price: {currency: EUR, per_gb_hour: 1}}}",
                 "t.yaml:1:73: profiles.a.price.per_gb_hour needs limits.memory");
    expect_error("profiles: {a: {price: {currency: EUR, per_hour: 0.0000001}}}",
                 "t.yaml:1:49: profiles.a.price.per_hour must be a number from 0 to 10000, not "
                 "'0.0000001'");
    expect_error("profiles: {a: {price: {currency: EUR, per_hour: 10000.000001}}}",
                 "t.yaml:1:49: profiles.a.price.per_hour must be a number from 0 to 10000, not "
                 "'10000.000001'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extends),       cmocka_unit_test(test_hash),
        cmocka_unit_test(test_printed_again), cmocka_unit_test(test_bad_extends),
        cmocka_unit_test(test_long_chain),    cmocka_unit_test(test_quote),
        cmocka_unit_test(test_bad_prices),    cmocka_unit_test(test_labels),
        cmocka_unit_test(test_auto),          cmocka_unit_test(test_commands),
        cmocka_unit_test(test_templates),     cmocka_unit_test(test_template_mounts),
        cmocka_unit_test(test_bad_templates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
