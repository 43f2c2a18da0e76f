/* What real boxes are made from: thousandths, mounts and where they may come from and go to, the
 * root, the user, the limits, the range of ids. */
#include <stdio.h>
#include <string.h>

#include "config/schema.h"
#include "tests/unit/config/load.h"

static void test_thousandths(void **state)
{
    (void) state;
    static const struct {
        const char *text;
        uint64_t value;
        const char *printed; /* NULL: refused */
    } cases[] = {
        {"1.5", 1500, "1.5"},    {"0.25", 250, "0.25"},
        {"2", 2000, "2"},        {"0", 0, "0"},
        {"0.001", 1, "0.001"},   {"1.0", 1000, "1"},
        {"1.050", 1050, "1.05"}, {"1024", 1024000, "1024"},
        {"", 0, NULL},           {"1.2345", 0, NULL},
        {"-1", 0, NULL},         {"x", 0, NULL},
        {".5", 0, NULL},         {"1.", 0, NULL},
        {".", 0, NULL},          {"1.x", 0, NULL},
        {"1.5.", 0, NULL},       {"1.-5", 0, NULL},
        {"1e3", 0, NULL},        {" 1", 0, NULL},
        {"1024.001", 0, NULL},   {"99999999999999999999999999", 0, NULL},
        {"1,5", 0, NULL},
    };
    const struct config_key *k = config_key_find(true, "limits.cpus");

    assert_non_null(k);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config *c = load("");
        char why[CONFIG_WHY_MAX] = "";
        char want[CONFIG_WHY_MAX];
        struct buf text;

        if (config_value_set(k, &c->profiles[0], cases[i].text, why) != (cases[i].printed != NULL))
            fail_msg("'%s': %s", cases[i].text, why);
        if (cases[i].printed != NULL) {
            assert_int_equal(c->profiles[0].limits.cpus, cases[i].value);
            buf_init(&text, 64);
            config_value_print(k, &c->profiles[0], &text);
            assert_string_equal(buf_str(&text), cases[i].printed);
            buf_fini(&text);
        } else {
            assert_int_equal(c->profiles[0].limits.cpus, 1000); /* untouched */
            (void) snprintf(want, sizeof(want), "must be a number from 0 to 1024, not '%s'",
                            cases[i].text);
            assert_string_equal(why, want);
        }
        (void) config_free(c);
    }
}

static void test_good_boxes(void **state)
{
    (void) state;
    struct config *c = load("mounts: {allow: [/srv, /data/sets]}\n"
                            "profiles:\n"
                            "  default:\n"
                            "    rootfs: /var/roots/one\n"
                            "    user: _build-er.2\n"
                            "    network: nat\n"
                            "    limits: {memory: 16M, cpus: 0.5, pids: 0, disk: 0}\n"
                            "    mounts:\n"
                            "      - /srv:/srv\n"
                            "      - /srv/models:/models:ro\n"
                            "      - /data/sets/a.b/..c:/procs:rw\n");
    const struct config_profile *p = &c->profiles[0];

    assert_string_equal(p->mounts, "/srv:/srv,/srv/models:/models:ro,/data/sets/a.b/..c:/procs:rw");
    assert_int_equal(p->limits.memory, 16 * 1024 * 1024);
    assert_int_equal(p->limits.cpus, 500);
    assert_int_equal(p->network.mode, CONFIG_NETWORK_NAT);
    (void) config_free(c);
    (void) config_free(load("profiles: {a: {image: 'oci:/var/images/x'}}"));
}

#define PATHS "needs absolute paths without '..', '.' and double or trailing slashes"
#define COVER "cannot cover /, /proc, /sys, /dev or /.sandpool of a box"

static void test_bad_mounts(void **state)
{
    (void) state;
    static const struct {
        const char *mount;
        const char *why;
    } cases[] = {
        {"/srv", "must be like /here:/there or /here:/there:ro"},
        {"/srv:/a:wr", "can only end in :ro or :rw"},
        {"/srv:/a:ro:rw", "can only end in :ro or :rw"},
        {"srv:/a", PATHS},
        {"/srv:a", PATHS},
        {"/srv/../etc:/a", PATHS},
        {"/srv/..:/a", PATHS},
        {"/srv:/a/../proc", PATHS},
        {"/srv/./x:/a", PATHS},
        {"/srv//x:/a", PATHS},
        {"/srv/:/a", PATHS},
        {"/srv:/a/", PATHS},
        {"/srv:/", COVER},
        {"/srv:/proc", COVER},
        {"/srv:/sys/fs", COVER},
        {"/srv:/dev/shm", COVER},
        {"/srv:/.sandpool/agent", COVER},
        {"/etc:/a", "is not below any of mounts.allow"},
        {"/srvx:/a", "is not below any of mounts.allow"},
        {"/:/a", "is not below any of mounts.allow"},
    };
    char text[256];
    char want[256];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void) snprintf(text, sizeof(text),
                        "mounts: {allow: [/srv]}\nprofiles: {a: {mounts: '%s'}}\n", cases[i].mount);
        (void) snprintf(want, sizeof(want), "t.yaml:2:24: profiles.a.mounts entry '%s' %s",
                        cases[i].mount, cases[i].why);
        expect_error(text, want);
    }
    expect_error("profiles: {a: {mounts: '/srv:/a'}}\n",
                 "t.yaml:1:24: profiles.a.mounts entry '/srv:/a' is not below any of mounts.allow");
}

static void test_allowed(void **state)
{
    (void) state;
    static const char *const bad[] = {"/", "srv", "/srv/..", "/srv/", "//"};
    char text[128];
    char want[192];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        (void) snprintf(text, sizeof(text), "mounts: {allow: '/ok,%s'}\n", bad[i]);
        (void) snprintf(want, sizeof(want),
                        "t.yaml:1:17: mounts.allow must be absolute paths other than / without "
                        "'..', not '%s'",
                        bad[i]);
        expect_error(text, want);
    }
    struct config *c = load("mounts: {allow: [/srv/a, /data]}");
    assert_true(config_mount_is_allowed(c, "/srv/a"));
    assert_true(config_mount_is_allowed(c, "/srv/a/b"));
    assert_true(config_mount_is_allowed(c, "/data/x"));
    assert_false(config_mount_is_allowed(c, "/srv"));
    assert_false(config_mount_is_allowed(c, "/srv/ab"));
    assert_false(config_mount_is_allowed(c, "/"));
    (void) config_free(c);
}

static void test_plain_paths(void **state)
{
    (void) state;
    char longest[CONFIG_PATH_MAX + 2];

    assert_true(config_path_is_plain("/"));
    assert_true(config_path_is_plain("/a/...b/c."));
    assert_false(config_path_is_plain(""));
    assert_false(config_path_is_plain("/a\nb"));
    assert_false(config_path_is_plain("/a\x7f"));
    memset(longest, 'x', sizeof(longest));
    longest[0] = '/';
    longest[CONFIG_PATH_MAX] = '\0';
    assert_true(config_path_is_plain(longest));
    longest[CONFIG_PATH_MAX] = 'x';
    longest[CONFIG_PATH_MAX + 1] = '\0';
    assert_false(config_path_is_plain(longest));
    assert_true(config_box_path_is_free("/procs"));
    assert_true(config_box_path_is_free("/home/dev"));
    assert_false(config_box_path_is_free("/"));
    assert_false(config_box_path_is_free("/dev"));
    assert_true(config_is_env_name("A_1"));
    assert_false(config_is_env_name("1A"));
    assert_false(config_is_env_name("A-B"));
    assert_false(config_is_env_name(""));
}

static void test_urls(void **state)
{
    (void) state;
    static const char *const good[] = {"http://a",          "https://a.b-c.example:65535",
                                       "http://10.0.0.1:1", "http://[::1]:8002/x/y",
                                       "http://[fe80::1]",  "http://a/"};
    static const char *const bad[] = {
        "",           "a:80",       "ftp://a",        "http://",       "http://:80",
        "http://a:",  "http://a:0", "http://a:65536", "http://a b",    "http://u:p@a",
        "http://a?x", "http://a#x", "http://[::1",    "http://[::1]x", "http://a:8x",
        "http:///x",  "http://a\n", "http://\xc3\xa9"};

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (!config_is_url(good[i]))
            fail_msg("%s is one", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (config_is_url(bad[i]))
            fail_msg("%s is none", bad[i]);
}

#define REMOTE(rest) "profiles: {a: {backend: remote, remote: {" rest "}}}\n"

static void test_bad_remotes(void **state)
{
    (void) state;
    expect_error(
        "profiles: {a: {backend: remote}}\n",
        "t.yaml:1:12: profiles.a.remote.provisioner_url is needed with backend remote, like "
        "http://provisioner:8002");
    expect_error(REMOTE("provisioner_url: 'http://u:p@a'"),
                 "t.yaml:1:59: profiles.a.remote.provisioner_url must be like "
                 "http://provisioner:8002, without user, query or fragment");
    expect_error(REMOTE("provisioner_url: 'http://a', provisioner_api_key: 'a b'"),
                 "t.yaml:1:92: profiles.a.remote.provisioner_api_key may only have printable "
                 "characters without spaces");
    expect_error(REMOTE("provisioner_url: 'http://a', provisioner_api_key: ab, "
                        "provisioner_api_key_file: /x"),
                 "t.yaml:1:122: profiles.a.remote.provisioner_api_key_file and provisioner_api_key "
                 "exclude each other: give one of them");
    expect_error(
        "profiles: {a: {backend: remote, remote: {provisioner_url: 'http://a'}, env: {A: b}}}",
        "t.yaml:1:72: profiles.a.env has no effect with backend remote: the provisioner "
        "makes the box");
}

static void test_bad_boxes(void **state)
{
    (void) state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"profiles: {a: {rootfs: home}}\n",
         "t.yaml:1:24: profiles.a.rootfs must be host, or the absolute path of a directory, not / "
         "itself, without '..'"},
        {"profiles: {a: {rootfs: /}}\n",
         "t.yaml:1:24: profiles.a.rootfs must be host, or the absolute path of a directory, not / "
         "itself, without '..'"},
        {"profiles: {a: {rootfs: /a, image: 'oci:/b'}}\n",
         "t.yaml:1:35: profiles.a.image and rootfs exclude each other: give one of them"},
        {"profiles: {a: {user: '0'}}\n",
         "t.yaml:1:22: profiles.a.user must be a user's name: up to 32 letters, digits and . _ -, "
         "a letter or _ first"},
        {"profiles: {a: {user: 'a:b'}}\n",
         "t.yaml:1:22: profiles.a.user must be a user's name: up to 32 letters, digits and . _ -, "
         "a letter or _ first"},
        {"profiles: {a: {limits: {memory: 15M}}}\n",
         "t.yaml:1:33: profiles.a.limits.memory must be 0 (no limit) or at least 16M"},
        {"profiles: {a: {limits: {disk: 1M}}}\n",
         "t.yaml:1:31: profiles.a.limits.disk must be 0 (no limit) or at least 16M"},
        {"profiles: {a: {durable: true, limits: {disk: 0}}}",
         "t.yaml:1:25: profiles.a.durable needs a disk of the box's own: limits.disk must not be 0"},
        {"profiles: {a: {backend: sim, durable: true}}",
         "t.yaml:1:39: profiles.a.durable needs backend oci"},
        {"profiles: {a: {on_drift: rebase, limits: {disk: 0}}}",
         "t.yaml:1:26: profiles.a.on_drift rebase needs a disk of the box's own: limits.disk must not be 0"},
        {"profiles: {a: {backend: sim, on_drift: rebase}}",
         "t.yaml:1:40: profiles.a.on_drift rebase needs backend oci or docker: other backends have no snapshots"},
        {"profiles: {a: {limits: {cpus: many}}}\n",
         "t.yaml:1:31: profiles.a.limits.cpus must be a number from 0 to 1024, not 'many'"},
        {"profiles: {a: {network: bridge}}\n",
         "t.yaml:1:25: profiles.a.network must be none, host or nat, not 'bridge'"},
        {"profiles: {a: {network: {mode: nat, allow: []}}}\n",
         "t.yaml:1:44: profiles.a.network.allow must not be empty"},
        {"profiles: {a: {network: {allow: [a.b]}}}\n",
         "t.yaml:1:26: profiles.a.network.allow needs backend oci and `mode: nat`"},
        {"profiles: {a: {backend: sim, network: {mode: nat, allow: [a.b]}}}\n",
         "t.yaml:1:51: profiles.a.network.allow needs backend oci and `mode: nat`"},
        {"profiles: {a: {network: {mode: nat, allow: [a.b, 10.0.0.1/8]}}}\n",
         "t.yaml:1:37: profiles.a.network.allow has '10.0.0.1/8', which has bits behind its length"},
        {"profiles: {a: {network: [nat]}}\n",
         "t.yaml:1:25: profiles.a.network must be a mapping of keys to values"},
        {"oci: {id_base: 2147418112}\npool: {max_boxes: 32769}\n",
         "t.yaml:1:16: oci.id_base (2147418112) leaves no room for 65536 ids for each of "
         "pool.max_boxes (32769)"},
        {"pool: {max_boxes: 50000}\n",
         "t.yaml:1:1: oci.id_base (1610612736) leaves no room for 65536 ids for each of "
         "pool.max_boxes (50000)"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect_error(cases[i].text, cases[i].message);
    /* the last one that fits; a configuration without such boxes needs no ids */
    (void) config_free(load("oci: {id_base: 2147418112}\npool: {max_boxes: 32768}\n"));
    (void) config_free(load("pool: {max_boxes: 100000}\nprofiles: {default: {backend: sim}}\n"));
}

static void test_thread_data(void **state)
{
    (void) state;
    static const struct {
        const char *template;
        bool is_good;
    } cases[] = {
        {"/srv/{user_id}/{thread_id}", true},
        {"/srv/{thread_id}/of/{user_id}/user-data", true},
        {"/srv/{user_id}", false},
        {"/srv/{thread_id}", false},
        {"/srv/plain", false},
        {"/srv/{user_id}-{thread_id}", false},
        {"/srv/{user_id}/t{thread_id}", false},
        {"/srv/{user_id}/{user_id}/{thread_id}", false},
        {"/srv/{user_id}/{thread_id}/{other}", false},
        {"/{user_id}/{thread_id}", false},
        {"srv/{user_id}/{thread_id}", false},
        {"/srv/../{user_id}/{thread_id}", false},
        {"/srv/{user_id}/{thread_id}/", false},
        {"/srv//{user_id}/{thread_id}", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if ((config_thread_data_problem(cases[i].template) == NULL) != cases[i].is_good)
            fail_msg("%s", cases[i].template);
    expect_error(
        "provisioner: {thread_data: '/srv/{user_id}'}",
        "t.yaml:1:28: provisioner.thread_data must have {user_id} and {thread_id}, each once");
}

/* Which extra mounts a thread may have: its own, and its user's beside the threads. */
static void test_thread_owns(void **state)
{
    static const struct {
        const char *path;
        bool is_closed;
        const char *own; /* NULL: not its own */
    } cases[] = {
        {"/srv/d/users/u/threads/t/user-data/x", true, "/srv/d/users/u/threads/t"},
        {"/srv/d/users/u/threads/t", true, "/srv/d/users/u/threads/t"},
        {"/srv/d/users/u/skills/custom", true, "/srv/d/users/u/skills"},
        {"/srv/d/users/u/threads2", true, "/srv/d/users/u/threads2"},
        {"/srv/d/users/u/threads/t2", true, NULL},
        {"/srv/d/users/u/threads", true, NULL},
        {"/srv/d/users/u", true, NULL},
        {"/srv/d/users/u2/skills", true, NULL},
        {"/srv/d/users", true, NULL},
        {"/srv/d", true, NULL},
        {"/srv/d/users2/u", false, NULL},
        {"/srv/e", false, NULL},
    };
    struct config *c = load(
        "provisioner: {thread_data: '/srv/d/users/{user_id}/threads/{thread_id}/user-data'}\n");
    struct config *none = load("profiles: {default: {backend: sim}}\n");
    char base[CONFIG_PATH_MAX + 1];

    (void) state;
    assert_true(config_thread_base(c, base));
    assert_string_equal(base, "/srv/d/users");
    assert_false(config_thread_base(none, base));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t own = 0;
        bool is_own = config_thread_owns(c, "u", "t", cases[i].path, &own);

        if (config_mount_is_closed(c, cases[i].path) != cases[i].is_closed ||
            config_mount_is_closed(none, cases[i].path) || is_own != (cases[i].own != NULL) ||
            (is_own &&
             (own != strlen(cases[i].own) || strncmp(cases[i].path, cases[i].own, own) != 0)))
            fail_msg("%s", cases[i].path);
    }
    (void) config_free(c);
    (void) config_free(none);
}

static void test_thread_path(void **state)
{
    (void) state;
    static const char *const bad[] = {"", ".", "..", "a/b", "/", "a b", "a\n", "\xc3\xa4", "{a}"};
    char path[CONFIG_PATH_MAX + 1];
    char name[CONFIG_PATH_MAX + 1];
    size_t base = 0;

    assert_true(config_thread_path("/srv/d/{user_id}/t/{thread_id}/x", "ann", "a..b", path, &base));
    assert_string_equal(path, "/srv/d/ann/t/a..b/x");
    assert_int_equal(base, strlen("/srv/d"));
    assert_true(config_thread_path("/srv/{thread_id}/{user_id}", "ann", "one", path, &base));
    assert_string_equal(path, "/srv/one/ann");
    assert_int_equal(base, strlen("/srv"));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(config_thread_path("/srv/{user_id}/{thread_id}", bad[i], "t", path, &base));
        assert_false(config_thread_path("/srv/{user_id}/{thread_id}", "u", bad[i], path, &base));
    }
    memset(name, 'x', sizeof(name) - 1);
    name[CONFIG_PATH_MAX - strlen("/srv//t")] = '\0';
    assert_true(config_thread_path("/srv/{user_id}/{thread_id}", name, "t", path, &base));
    assert_int_equal(strlen(path), CONFIG_PATH_MAX);
    assert_false(config_thread_path("/srv/{user_id}/{thread_id}", name, "tt", path, &base));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thousandths), cmocka_unit_test(test_thread_data),
        cmocka_unit_test(test_thread_owns), cmocka_unit_test(test_thread_path),
        cmocka_unit_test(test_good_boxes),  cmocka_unit_test(test_bad_mounts),
        cmocka_unit_test(test_allowed),     cmocka_unit_test(test_plain_paths),
        cmocka_unit_test(test_urls),        cmocka_unit_test(test_bad_remotes),
        cmocka_unit_test(test_bad_boxes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
