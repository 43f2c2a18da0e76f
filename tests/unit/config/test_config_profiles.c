/* Profiles that extend others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static struct config *load(const char *text)
{
    struct config *c = NULL;
    struct err err = {0};

    if (config_parse("t.yaml", text, strlen(text), &c, &err) != SP_OK)
        fail_msg("%s", err.msg);
    return c;
}

static void expect_error(const char *text, const char *message)
{
    struct config *c = NULL;
    struct err err = {0};

    assert_int_equal(config_parse("t.yaml", text, strlen(text), &c, &err), SP_CONFIG);
    assert_null(c);
    assert_string_equal(err.msg, message);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extends),       cmocka_unit_test(test_hash),
        cmocka_unit_test(test_printed_again), cmocka_unit_test(test_bad_extends),
        cmocka_unit_test(test_long_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
