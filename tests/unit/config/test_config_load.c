/* Files that load; files that do not, with the exact position and text of the error; and
 * environment variables in values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/config/load.h"

static void test_smallest(void **state)
{
    (void) state;
    struct config *c = load("profiles: {default: {backend: sim, warm: {min: 4, max: 16}}}");

    assert_int_equal(c->profile_count, 1);
    assert_string_equal(c->profiles[0].name, "default");
    assert_string_equal(c->profiles[0].backend, "sim");
    assert_int_equal(c->profiles[0].warm.min, 4);
    assert_int_equal(c->profiles[0].warm.max, 16);
    assert_int_equal(c->profiles[0].create.concurrency, 0);
    assert_int_equal(c->pool.max_boxes, 1000);
    (void) config_free(c);
}

static void test_nothing(void **state)
{
    (void) state;
    static const char *const texts[] = {
        "",
        "\n",
        "# only a comment\n",
        "---\n",
        "~",
        "{}",
        "profiles:\n",
        "pool: ~\nprofiles: {}\n",
        "profiles:\n  default:\n",
    };
    struct config *c = NULL;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        c = load(texts[i]);
        assert_int_equal(c->profile_count, 1);
        assert_non_null(config_find_profile(c, "default"));
        assert_string_equal(c->socket.path, "/run/sandpool/sandpool.sock");
        assert_int_equal(c->socket.mode, 0660);
        assert_string_equal(c->profiles[0].backend, "oci");
        assert_string_equal(c->profiles[0].rootfs, "host");
        assert_string_equal(c->profiles[0].user, "user");
        assert_int_equal(c->profiles[0].network.mode, CONFIG_NETWORK_NONE);
        assert_int_equal(c->profiles[0].limits.cpus, 1000);
        assert_string_equal(c->mounts.allow, "");
        c = config_free(c);
    }
    assert_int_equal(config_load(NULL, &c, NULL), SP_OK);
    assert_string_equal(c->state_dir, "/var/lib/sandpool");
    c = config_free(c);
    assert_null(config_free(NULL));
}

static void test_profiles_are_sorted(void **state)
{
    (void) state;
    struct config *c = load("profiles:\n"
                            "  small: {warm: {min: 1}}\n"
                            "  2.big-one_x: {warm: {min: 3}}\n"
                            "  a: {ttl_s: 7}\n");

    assert_int_equal(c->profile_count, 4);
    assert_string_equal(c->profiles[0].name, "2.big-one_x");
    assert_string_equal(c->profiles[1].name, "a");
    assert_string_equal(c->profiles[2].name, "default");
    assert_string_equal(c->profiles[3].name, "small");
    assert_int_equal(config_find_profile(c, "2.big-one_x")->warm.min, 3);
    assert_int_equal(config_find_profile(c, "a")->ttl_s, 7);
    assert_int_equal(config_find_profile(c, "small")->warm.min, 1);
    assert_int_equal(config_find_profile(c, "default")->warm.min, 2);
    assert_null(config_find_profile(c, "other"));
    (void) config_free(c);
}

static void test_maps_and_lists(void **state)
{
    (void) state;
    struct config *c = load("operator_uids: [1000, 1001]\n"
                            "tcp:\n"
                            "  listen: '[::1]:8001'\n"
                            "  operators: \"bob , alice\"\n"
                            "  tokens:\n"
                            "    bob: 0123456789abcdef\n"
                            "    alice: fedcba9876543210\n"
                            "profiles:\n"
                            "  default:\n"
                            "    env: {LANG: C.UTF-8, EMPTY: , TEXT: \"two\\nlines\"}\n");

    assert_string_equal(c->operator_uids, "1000,1001");
    assert_string_equal(c->tcp.operators, "bob,alice");
    assert_int_equal(c->tcp.tokens.count, 2);
    assert_string_equal(c->tcp.tokens.pairs[0].key, "bob");
    assert_string_equal(c->tcp.tokens.pairs[1].value, "fedcba9876543210");
    assert_int_equal(c->profiles[0].env.count, 3);
    assert_string_equal(c->profiles[0].env.pairs[1].value, "");
    assert_string_equal(c->profiles[0].env.pairs[2].value, "two\nlines");
    (void) config_free(c);
}

static const struct {
    const char *text;
    const char *message;
} errors[] = {
    /* keys */
    {"pool:\n  max_box: 3\n", "t.yaml:2:3: unknown key 'pool.max_box', did you mean 'max_boxes'?"},
    {"oci:\n  agent: /a\n", "t.yaml:2:3: 'oci.agent' is called 'agent.path' now"},
    {"oci: {helper: /h}\n", "t.yaml:1:7: 'oci.helper' is called 'helper.path' now"},
    {"htpp: {}\n", "t.yaml:1:1: unknown key 'htpp', did you mean 'http'?"},
    {"profile: {}\n", "t.yaml:1:1: unknown key 'profile', did you mean 'profiles'?"},
    {"max_boxes: 3\n", "t.yaml:1:1: unknown key 'max_boxes', did you mean 'pool.max_boxes'?"},
    {"profiles:\n  a:\n    warm:\n      mni: 1\n",
     "t.yaml:4:7: unknown key 'profiles.a.warm.mni', did you mean 'min'?"},
    {"profiles: {a: {bakcend: sim}}\n",
     "t.yaml:1:16: unknown key 'profiles.a.bakcend', did you mean 'backend'?"},
    {"something: 1\n", "t.yaml:1:1: unknown key 'something'"},
    {"pool.max_boxes: 3\n", "t.yaml:1:1: unknown key 'pool.max_boxes'"},
    {"log: {level: info}\nlog: {level: warn}\n",
     "t.yaml:2:1: 'log' is given twice, first in line 1"},
    {"log:\n  level: info\n  level: warn\n", "t.yaml:3:3: 'level' is given twice, first in line 2"},
    {"? [a]\n: b\n", "t.yaml:1:3: a key must be a word"},
    /* types */
    {"pool:\n  max_boxes: many\n",
     "t.yaml:2:14: pool.max_boxes must be a whole number from 1 to 100000, not 'many'"},
    {"pool:\n  max_boxes: 0\n",
     "t.yaml:2:14: pool.max_boxes must be a whole number from 1 to 100000, not '0'"},
    {"pool:\n  max_boxes: -1\n",
     "t.yaml:2:14: pool.max_boxes must be a whole number from 1 to 100000, not '-1'"},
    {"pool:\n  max_boxes:\n",
     "t.yaml:2:13: pool.max_boxes must be a whole number from 1 to 100000, not ''"},
    {"pool: {max_boxes: [1]}\n", "t.yaml:1:19: pool.max_boxes must be a single value"},
    {"pool: 3\n", "t.yaml:1:7: pool must be a mapping of keys to values"},
    {"profiles: [a]\n", "t.yaml:1:11: profiles must be a mapping of keys to values"},
    {"profiles: {a: 3}\n", "t.yaml:1:15: profiles.a must be a mapping of keys to values"},
    {"- a\n", "t.yaml:1:1: the file must be a mapping of keys to values"},
    {"hello\n", "t.yaml:1:1: the file must be a mapping of keys to values"},
    {"http: {max_body_bytes: 2T}\n",
     "t.yaml:1:24: http.max_body_bytes must be a size like 512M or 1G, from 1k to 1G, not '2T'"},
    {"socket: {mode: 0888}\n",
     "t.yaml:1:16: socket.mode must be an octal mode up to 0777, not '0888'"},
    {"socket: {mode: 1777}\n",
     "t.yaml:1:16: socket.mode must be an octal mode up to 0777, not '1777'"},
    {"log: {level: loud}\n",
     "t.yaml:1:14: log.level must be debug, info, warn or error, not 'loud'"},
    {"profiles: {a: {discover: yes}}\n",
     "t.yaml:1:26: profiles.a.discover must be true or false, not 'yes'"},
    {"state_dir: ''\n", "t.yaml:1:12: state_dir must not be empty"},
    {"state_dir: \"a\\tb\"\n", "t.yaml:1:12: state_dir has a control character in it"},
    {"instance: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
     "t.yaml:1:11: instance is longer than 64 bytes"},
    {"tcp: {tokens: hello}\n", "t.yaml:1:15: tcp.tokens must be a mapping of names to texts"},
    {"tcp: {tokens: {bob: [1]}}\n", "t.yaml:1:21: tcp.tokens.bob must be a text"},
    {"tcp: {tokens: {bob: short}}\n",
     "t.yaml:1:21: tcp.tokens.bob must have at least 16 characters"},
    {"tcp: {operators: [[a]]}\n", "t.yaml:1:19: tcp.operators must be a list of words"},
    {"tcp: {operators: {a: b}}\n", "t.yaml:1:22: tcp.operators must be a list of words"},
    /* YAML features that are not supported */
    {"log: &a {level: info}\n", "t.yaml:1:6: anchors are not supported: write the value out"},
    {"instance: &a x\n", "t.yaml:1:11: anchors are not supported: write the value out"},
    {"log: *a\n", "t.yaml:1:6: aliases are not supported: write the value out"},
    {"pool: {max_boxes: !!int 3}\n", "t.yaml:1:19: tags are not supported"},
    {"pool: !x {max_boxes: 3}\n", "t.yaml:1:7: tags are not supported"},
    {"log: {}\n---\npool: {}\n", "t.yaml:2:1: only one document is allowed in the file"},
    {"[[[[[[[[[[", "t.yaml:1:9: nested too deeply"},
    {"instance: \"a\\0b\"\n", "t.yaml:1:11: a NUL character is not allowed"},
    {"log: {level: info\n", "t.yaml:2:1: did not find expected ',' or '}'"},
    {"pool:\n\tmax_boxes: 3\n", "t.yaml:2:1: found character that cannot start any token"},
    {"log: {}\ninstance: \xff\xfe\n", "t.yaml:2:11: invalid leading UTF-8 octet"},
    /* the environment */
    {"instance: ${SP_TEST_UNSET}\n",
     "t.yaml:1:11: instance needs the environment variable SP_TEST_UNSET, which is not set"},
    {"instance: a$b\n",
     "t.yaml:1:11: instance has a lone '$': write $$ for a dollar, ${NAME} for a "
     "variable"},
    {"instance: ${A\n", "t.yaml:1:11: instance has a '${' without its '}'"},
    {"instance: ${1A}\n",
     "t.yaml:1:11: instance has a variable that is neither ${NAME} nor ${NAME:-default}"},
    {"instance: ${A:x}\n",
     "t.yaml:1:11: instance has a variable that is neither ${NAME} nor ${NAME:-default}"},
    {"instance: ${SP_TEST_BINARY}\n", "t.yaml:1:11: instance is not valid UTF-8"},
    {"tcp: {operators: [a, '${SP_TEST_UNSET}']}\n",
     "t.yaml:1:22: tcp.operators needs the environment variable SP_TEST_UNSET, which is not set"},
    /* across keys */
    {"profiles:\n  a.b:\n    warm:\n      max: 1\n      min: 3\n",
     "t.yaml:5:12: profiles.a.b.warm.min (3) is more than warm.max (1)"},
    {"profiles:\n  a:\n    warm: {max: 1}\n",
     "t.yaml:3:5: profiles.a.warm.min (2) is more than warm.max (1)"},
    {"profiles: {a: {create: {backoff_min_ms: 50000}}}\n",
     "t.yaml:1:41: profiles.a.create.backoff_min_ms (50000) is more than create.backoff_max_ms "
     "(30000)"},
    {"pool: {default_wait_ms: 700000}\n",
     "t.yaml:1:25: pool.default_wait_ms (700000) is more than pool.max_wait_ms (600000)"},
    {"pool: {max_boxes: 3}\nprofiles: {a: {}}\n",
     "t.yaml:1:19: pool.max_boxes (3) is less than the warm.min of all profiles (4)"},
    {"profiles: {a: {backend: moon}}\n",
     "t.yaml:1:25: profiles.a.backend 'moon' is unknown; there is: oci docker remote sim"},
    {"profiles: {Big: {}}\n",
     "t.yaml:1:12: 'Big' cannot be a profile's name: it is up to 64 of a-z "
     "0-9 . _ -, a letter or digit first"},
    {"profiles: {-a: {}}\n", "t.yaml:1:12: '-a' cannot be a profile's name: it is up to 64 of a-z "
                             "0-9 . _ -, a letter or digit first"},
    {"profiles: {a: {env: {1X: a}}}\n",
     "t.yaml:1:26: profiles.a.env.1X cannot be the name of a variable"},
    {"provisioner: {listen: 'localhost:80'}",
     "t.yaml:1:23: provisioner.listen must be an address and a port like 127.0.0.1:8002 or "
     "[::1]:8002"},
    {"provisioner: {api_key: short}",
     "t.yaml:1:24: provisioner.api_key must be 16 or more characters without spaces"},
    {"provisioner: {api_key: 'sixteen letters !'}",
     "t.yaml:1:24: provisioner.api_key must be 16 or more characters without spaces"},
    {"provisioner: {api_key: 0123456789abcdef, api_key_file: /k}",
     "t.yaml:1:56: provisioner.api_key_file and api_key exclude each other: give one of them"},
    {"provisioner: {advertise_host: 'http://a/'}",
     "t.yaml:1:31: provisioner.advertise_host must be a host or host:port, without http:// and "
     "path"},
    {"provisioner: {enabled: true, profile: none}",
     "t.yaml:1:39: provisioner.profile is not the name of a profile"},
    {"tls: {cert: /c}\n",
     "t.yaml:1:13: tls.cert needs the other one: a certificate and its key go together"},
    {"tls: {key: /k}\n",
     "t.yaml:1:12: tls.key needs the other one: a certificate and its key go together"},
    {"tls: {client_required: true}\n", "t.yaml:1:24: tls.client_required needs tls.client_ca"},
    {"tcp: {listen: 'localhost:1', tokens: {a: 0123456789abcdef}}\n",
     "t.yaml:1:15: tcp.listen must be an address and a port like 127.0.0.1:8001 or [::1]:8001"},
    {"tcp: {listen: '127.0.0.1:65536', tokens: {a: 0123456789abcdef}}\n",
     "t.yaml:1:15: tcp.listen must be an address and a port like 127.0.0.1:8001 or [::1]:8001"},
    {"tcp: {tokens: {a: 0123456789abcdef, b: 0123456789abcdef}}\n",
     "t.yaml:1:40: tcp.tokens.b is the same token as another caller's"},
    {"tcp: {tokens: {a b: 0123456789abcdef}}\n",
     "t.yaml:1:21: tcp.tokens.a b cannot be a caller's name: use letters, digits, _ and -"},
    {"tcp: {tokens: {a: 0123456789 abcdef}}\n",
     "t.yaml:1:19: tcp.tokens.a may only have printable characters without spaces"},
    {"tcp: {operators: bob}\n",
     "t.yaml:1:18: tcp.operators names 'bob', which is not among tcp.tokens"},
    {"operator_uids: [0, root]\n",
     "t.yaml:1:1: operator_uids must be numeric user ids, not 'root'"},
    {"instance: a/b\n", "t.yaml:1:11: instance may have letters, digits and . _ -"},
    {"socket: {path: /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaa}\n",
     "t.yaml:1:16: socket.path is longer than the 107 bytes a socket may have"},
};

static void test_errors(void **state)
{
    (void) state;
    assert_int_equal(setenv("SP_TEST_BINARY", "a\xc0\xaf", 1), 0);
    for (size_t i = 0; i < ARRAY_LEN(errors); i++)
        expect_error(errors[i].text, errors[i].message);
}

static void test_socket_path_limit(void **state)
{
    (void) state;
    char text[160];
    char path[108];

    memset(path, 'a', sizeof(path) - 1);
    path[0] = '/';
    path[107] = '\0';
    (void) snprintf(text, sizeof(text), "socket: {path: %s}", path);
    (void) config_free(load(text));
}

static void test_several_problems(void **state)
{
    (void) state;
    expect_error("a1: 1\nb1: 2\n", "t.yaml:1:1: unknown key 'a1'; 2:1: unknown key 'b1'");

    /* As many as fit whole, then how many more. */
    struct buf text;
    struct err err = {0};
    struct config *c = NULL;

    buf_init(&text, 4096);
    for (int i = 10; i < 40; i++)
        buf_printf(&text, "strange%d: 1\n", i);
    assert_int_equal(config_parse("t.yaml", buf_str(&text), text.len, &c, &err), SP_CONFIG);
    assert_non_null(strstr(err.msg, "t.yaml:1:1: unknown key 'strange10'; 2:1: unknown"));
    assert_non_null(strstr(err.msg, "'; and 2"));
    assert_string_equal(err.msg + strlen(err.msg) - 5, " more");
    buf_fini(&text);
}

static void test_secrets_are_not_shown(void **state)
{
    (void) state;
    static const char text[] = "tcp: {tokens: {bob: hunter2}}\n";
    static const char text2[] = "tcp: {tokens: {bob: 'hunter2 hunter2 hunter2'}}\n";
    struct config *c = NULL;
    struct err err = {0};

    assert_int_equal(config_parse("t", text, strlen(text), &c, &err), SP_CONFIG);
    assert_null(strstr(err.msg, "hunter2"));
    assert_int_equal(config_parse("t", text2, strlen(text2), &c, &err), SP_CONFIG);
    assert_null(strstr(err.msg, "hunter2"));
}

static void test_environment(void **state)
{
    (void) state;
    assert_int_equal(setenv("SP_TEST_A", "alpha", 1), 0);
    assert_int_equal(setenv("SP_TEST_EMPTY", "", 1), 0);
    assert_int_equal(setenv("SP_TEST_N", "77", 1), 0);
    struct config *c = load("instance: x-${SP_TEST_A}-${SP_TEST_UNSET:-beta}${SP_TEST_EMPTY}\n"
                            "pool: {max_boxes: '${SP_TEST_N}'}\n"
                            "operator_uids: ['${SP_TEST_N}', 5]\n"
                            "profiles:\n"
                            "  default:\n"
                            "    env:\n"
                            "      A: $$HOME $${X}\n"
                            "      B: ${SP_TEST_EMPTY:-was empty}\n"
                            "      C: ${SP_TEST_UNSET:-}\n"
                            "      D: ${SP_TEST_A:-not used}$$\n");

    assert_string_equal(c->instance, "x-alpha-beta");
    assert_int_equal(c->pool.max_boxes, 77);
    assert_string_equal(c->operator_uids, "77,5");
    assert_string_equal(c->profiles[0].env.pairs[0].value, "$HOME ${X}");
    assert_string_equal(c->profiles[0].env.pairs[1].value, "was empty");
    assert_string_equal(c->profiles[0].env.pairs[2].value, "");
    assert_string_equal(c->profiles[0].env.pairs[3].value, "alpha$");
    (void) config_free(c);
}

static void test_limits(void **state)
{
    (void) state;
    struct buf text;
    struct config *c = NULL;
    struct err err = {0};

    buf_init(&text, CONFIG_FILE_MAX + 2);
    while (text.len <= CONFIG_FILE_MAX)
        buf_putc(&text, '\n');
    assert_int_equal(config_parse("t", buf_str(&text), text.len, &c, &err), SP_CONFIG);
    assert_string_equal(err.msg, "t:1:1: the file is larger than 1048576 bytes");
    assert_int_equal(config_parse("t", buf_str(&text), CONFIG_FILE_MAX, &c, &err), SP_OK);
    c = config_free(c);

    buf_reset(&text);
    buf_puts(&text, "profiles:\n");
    for (int i = 0; i < CONFIG_PROFILES_MAX + 1; i++)
        buf_printf(&text, "  p%d: {}\n", i);
    assert_int_equal(config_parse("t", buf_str(&text), text.len, &c, &err), SP_CONFIG);
    assert_string_equal(err.msg, "t:66:3: more than 64 profiles");

    buf_reset(&text);
    buf_puts(&text, "profiles:\n  default:\n    env:\n");
    for (int i = 0; i < CONFIG_MAP_MAX + 1; i++)
        buf_printf(&text, "      V%d: x\n", i);
    assert_int_equal(config_parse("t", buf_str(&text), text.len, &c, &err), SP_CONFIG);
    assert_string_equal(err.msg, "t:68:12: profiles.default.env.V64 has more than 64 entries");

    buf_reset(&text);
    for (int i = 0; i < 300; i++)
        buf_printf(&text, "k%d: x\n", i);
    assert_int_equal(config_parse("t", buf_str(&text), text.len, &c, &err), SP_CONFIG);
    assert_string_equal(err.msg, "t:257:1: too many entries in one place, 256 are allowed");
    buf_fini(&text);
}

static void test_files(void **state)
{
    (void) state;
    char path[] = "/tmp/test_config_XXXXXX";
    int fd = mkstemp(path);
    struct config *c = NULL;
    struct err err = {0};
    char want[128];

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "log: {level: debug}\n", 20), 20);
    assert_int_equal(config_load(path, &c, &err), SP_OK);
    assert_int_equal(c->log.level, LOG_DEBUG);
    c = config_free(c);
    assert_int_equal(write(fd, "x: 1\n", 5), 5);
    assert_int_equal(config_load(path, &c, &err), SP_CONFIG);
    (void) snprintf(want, sizeof(want), "%s:2:1: unknown key 'x'", path);
    assert_string_equal(err.msg, want);
    assert_int_equal(ftruncate(fd, CONFIG_FILE_MAX + 100), 0);
    assert_int_equal(config_load(path, &c, &err), SP_CONFIG);
    assert_non_null(strstr(err.msg, "larger than"));
    (void) close(fd);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(config_load(path, &c, &err), SP_CONFIG);
    assert_non_null(strstr(err.msg, "cannot open"));
    assert_non_null(strstr(err.msg, "No such file"));
    assert_int_equal(config_load("/tmp", &c, &err), SP_CONFIG);
    assert_non_null(strstr(err.msg, "'/tmp' is not a file"));
    assert_null(c);
}

static void test_backend_names(void **state)
{
    (void) state;
    for (unsigned i = 0; config_backends[i] != NULL; i++) {
        char text[160];

        /* the other requirements of the two are not tested here */
        (void) snprintf(text, sizeof(text),
                        "profiles: {a: {backend: %s, image: 'docker://x', "
                        "remote: {provisioner_url: 'http://x'}}}",
                        config_backends[i]);
        struct config *c = load(text);
        assert_string_equal(config_find_profile(c, "a")->backend, config_backends[i]);
        (void) config_free(c);
    }
    expect_error(
        "profiles: {a: {backend: sun}}\n",
        "t.yaml:1:25: profiles.a.backend 'sun' is unknown; there is: oci docker remote sim");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_profiles_are_sorted),
        cmocka_unit_test(test_maps_and_lists),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_socket_path_limit),
        cmocka_unit_test(test_several_problems),
        cmocka_unit_test(test_secrets_are_not_shown),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_backend_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
