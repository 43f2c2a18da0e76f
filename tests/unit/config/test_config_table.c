/* The table against everything made from it: each key goes through a file and back, the example is
 * the table, reload and hash follow the flags. Where it matters (reload, spec), the expected flags
 * of the keys are written here a second time, so that a mistake in the table is found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/schema.h"
#include "table_values.h"
#include "tests/unit/config/load.h"

/* Such a file without the key. */
static struct config *load_without(const struct config_key *k)
{
    char text[256];

    (void) snprintf(
        text, sizeof(text), "{%sprofiles: {default: {%s%s}}}", companions(k), backend_of(k),
        strncmp(k->path, "profiles.*.remote.", 18) == 0 ? "remote: {provisioner_url: 'http://a'}"
                                                        : "");
    return load(text);
}

/* A file that sets only this key (and the keys it requires). */
static struct config *load_with(const struct config_key *k, const char *value)
{
    const char *name = config_key_name(k);
    const char *dot = strchr(name, '.');
    char text[2048];
    char inner[1024];

    if (dot != NULL)
        (void) snprintf(inner, sizeof(inner), "%.*s: {%s: %s%s}", (int) (dot - name), name, dot + 1,
                        value, section_rest(k));
    else
        (void) snprintf(inner, sizeof(inner), "%s: %s", name, value);
    if (strcmp(k->path, "profiles.*.warm.max") == 0)
        (void) snprintf(inner, sizeof(inner), "warm: {max: %s}", value);
    if (config_key_is_profile(k))
        (void) snprintf(text, sizeof(text), "{%sprofiles: {default: {%s%s}%s}}", companions(k),
                        backend_of(k), inner,
                        strcmp(k->path, "profiles.*.extends") == 0 ? ", other: {}" : "");
    else
        (void) snprintf(text, sizeof(text), "{%s}", inner);
    return load(text);
}

static void *object_of(const struct config_key *k, struct config *c)
{
    return config_key_is_profile(k) ? (void *) &c->profiles[0] : c;
}

static void test_each_key_goes_through(void **state)
{
    (void) state;

    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        struct config *plain = load_without(k);
        struct config *c = load_with(k, other_value(k));
        struct buf text;

        if (config_value_equal(k, object_of(k, c), object_of(k, plain)))
            fail_msg("%s was not set", k->path);
        /* no other key was */
        for (const struct config_key *o = config_key_next(NULL); o != NULL;
             o = config_key_next(o)) {
            if (o == k || strcmp(o->path, "tcp.tokens") == 0 ||
                strcmp(o->path, "profiles.*.price.currency") == 0 ||
                strcmp(o->path, "profiles.*.network.mode") == 0 ||
                (strncmp(o->path, "tls.", 4) == 0 && strstr(section_rest(k), o->path + 4) != NULL))
                continue;
            if (!config_value_equal(o, object_of(o, c), object_of(o, plain)))
                fail_msg("%s changed %s", k->path, o->path);
        }
        buf_init(&text, 65536);
        config_print(c, &text);
        if ((k->flags & CONFIG_SECRET) == 0 && c->tcp.tokens.count == 0) {
            struct config *again = load(buf_str(&text));

            assert_true(config_value_equal(k, object_of(k, again), object_of(k, c)));
            (void) config_free(again);
        }
        buf_fini(&text);
        (void) config_free(c);
        (void) config_free(plain);
    }
}

static void test_secrets_are_not_printed(void **state)
{
    (void) state;
    struct config *c = load("tcp: {tokens: {bob: hunter2hunter2hunter2}}\n"
                            "provisioner: {api_key: sesame-open-sesame}\n"
                            "profiles: {default: {env: {API: topsecret}}, far: {backend: remote, "
                            "remote: {provisioner_url: 'http://a', "
                            "provisioner_api_key: topsecret}}}\n");
    struct buf text;

    buf_init(&text, 65536);
    config_print(c, &text);
    assert_null(strstr(buf_str(&text), "hunter2"));
    assert_null(strstr(buf_str(&text), "topsecret"));
    assert_null(strstr(buf_str(&text), "sesame"));
    assert_non_null(strstr(buf_str(&text), "  api_key: \"(secret)\"\n"));
    assert_non_null(strstr(buf_str(&text), "    bob: \"(secret)\"\n"));
    assert_non_null(strstr(buf_str(&text), "      API: \"(secret)\"\n"));
    assert_non_null(strstr(buf_str(&text), "      provisioner_api_key: \"(secret)\"\n"));
    buf_fini(&text);
    (void) config_free(c);
}

static void test_ranges_hold(void **state)
{
    (void) state;
    char why[CONFIG_WHY_MAX];
    char text[32];

    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        struct config *c = load("");
        void *object = object_of(k, c);

        if (k->type == CONFIG_TYPE_U64 || k->type == CONFIG_TYPE_SIZE) {
            (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) k->min);
            assert_true(config_value_set(k, object, text, why));
            (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) k->max);
            assert_true(config_value_set(k, object, text, why));
            if (k->max != UINT64_MAX) {
                (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) k->max + 1);
                assert_false(config_value_set(k, object, text, why));
            }
            if (k->min > 0) {
                (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) k->min - 1);
                assert_false(config_value_set(k, object, text, why));
            }
            assert_false(config_value_set(k, object, "99999999999999999999999", why));
            assert_false(config_value_set(k, object, "1.5", why));
        }
        assert_true(strlen(k->help) > 10 && k->help[strlen(k->help) - 1] == '.');
        (void) config_free(c);
    }
}

/* Text fields are as large as the table says: the longest text arrives whole. */
static void test_longest_texts(void **state)
{
    (void) state;
    char why[CONFIG_WHY_MAX];
    char longest[EGRESS_TEXT_MAX + 2];

    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        struct config *c = load("");
        void *object = object_of(k, c);

        if (k->type == CONFIG_TYPE_STRING || k->type == CONFIG_TYPE_PATH ||
            k->type == CONFIG_TYPE_LIST) {
            assert_true(k->max <= EGRESS_TEXT_MAX);
            memset(longest, 'x', sizeof(longest));
            longest[k->max] = '\0';
            assert_true(config_value_set(k, object, longest, why));
            assert_string_equal((const char *) object + k->offset, longest);
            longest[k->max] = 'x';
            longest[k->max + 1] = '\0';
            assert_false(config_value_set(k, object, longest, why));
        }
        (void) config_free(c);
    }
}

static char *read_example(size_t *ret_len)
{
    const char *dir = getenv("SANDPOOL_SOURCE_DIR");
    char path[512];
    char *text = calloc(1, CONFIG_FILE_MAX);

    assert_non_null(dir);
    assert_non_null(text);
    (void) snprintf(path, sizeof(path), "%s/config.example.yaml", dir);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *ret_len = fread(text, 1, CONFIG_FILE_MAX - 1, f);
    (void) fclose(f);
    return text;
}

static void test_example_is_the_table(void **state)
{
    (void) state;
    size_t len;
    char *file = read_example(&len);
    struct buf text;

    buf_init(&text, CONFIG_FILE_MAX);
    config_print_example(&text);
    assert_string_equal(file, buf_str(&text));
    assert_int_equal(len, text.len);

    struct config *c = load(file);
    struct config *plain = load("");
    assert_int_equal(c->profile_count, 1);
    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k))
        assert_true(config_value_equal(k, object_of(k, c), object_of(k, plain)));
    (void) config_free(c);
    (void) config_free(plain);
    buf_fini(&text);
    free(file);
}

static bool is_in(const char *const *list, const char *path)
{
    for (; *list != NULL; list++) {
        size_t len = strlen(*list);

        if ((*list)[len - 1] == '*' ? strncmp(*list, path, len - 1) == 0 : strcmp(*list, path) == 0)
            return true;
    }
    return false;
}

static const char *const reloadable[] = {
    "auto.*",
    "log.*",
    "http.*",
    "profiles.*",
    "tcp.tokens",
    "tcp.operators",
    "tcp.max_unproven",
    "tcp.public_url",
    "tcp.max_requests_per_box",
    "tcp.request_idle_s",
    "calls.max_per_box",
    "calls.share_percent",
    "calls.idle_timeout_s",
    "snapshots.max_*",
    "snapshots.hibernated_max",
    "snapshots.hibernated_share_percent",
    "snapshots.hibernated_envs",
    "snapshots.keep_s",
    "snapshots.import_max",
    "operator_uids",
    "pool.default_wait_ms",
    "pool.max_wait_ms",
    "quotas.caller_boxes",
    "quotas.caller_waiting",
    "quotas.caller_per_minute",
    "quotas.user_boxes",
    "quotas.user_waiting",
    "quotas.user_per_minute",
    "pool.reconcile_interval_s",
    "store.min_free",
    "provisioner.api_key*",
    "provisioner.profile",
    "provisioner.boxes",
    "provisioner.advertise_host",
    "provisioner.thread_data",
    "provisioner.wait_ms",
    "provisioner.ttl_s",
    "provisioner.idle_timeout_s",
    "provisioner.max_connections",
    "provisioner.max_requests_per_box",
    "provisioner.request_idle_s",
    "tls.cert",
    "tls.key",
    "tls.client_ca",
    "tls.client_required",
    "budgets.amount",
    "usage.sample_s",
    "socket.hosts",
    "ui.enabled",
    NULL,
};

static void test_reload(void **state)
{
    (void) state;
    char want[160];

    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        struct config *plain = load_without(k);
        struct config *c = load_with(k, other_value(k));
        struct err err = {0};

        if (is_in(reloadable, k->path)) {
            assert_int_equal(config_can_reload(plain, c, &err), SP_OK);
        } else {
            assert_int_equal(config_can_reload(plain, c, &err), SP_CONFIG);
            (void) snprintf(want, sizeof(want),
                            "%s cannot change while the daemon runs: restart it; SIGUSR2 does so "
                            "unnoticed",
                            k->path);
            assert_string_equal(err.msg, want);
        }
        (void) config_free(c);
        (void) config_free(plain);
    }
    struct config *plain = load("");
    struct config *more = load("profiles: {extra: {}}");
    assert_int_equal(config_can_reload(plain, more, NULL), SP_OK);
    assert_int_equal(config_can_reload(more, plain, NULL), SP_OK);
    (void) config_free(more);
    (void) config_free(plain);
}

static uint64_t hash_of(const char *profile)
{
    char text[512];

    (void) snprintf(text, sizeof(text), "profiles: {default: {%s}}", profile);
    struct config *c = load(text);
    uint64_t h = config_spec_hash(&c->profiles[0]);
    (void) config_free(c);
    return h;
}

static void test_spec_hash(void **state)
{
    (void) state;
    static const char *const spec[] = {"profiles.*.backend",
                                       "profiles.*.setup.command",
                                       "profiles.*.warm_up.command",
                                       "profiles.*.runtime",
                                       "profiles.*.rootfs",
                                       "profiles.*.image",
                                       "profiles.*.snapshot",
                                       "profiles.*.user",
                                       "profiles.*.network.*",
                                       "profiles.*.mounts",
                                       "profiles.*.limits.*",
                                       "profiles.*.env",
                                       "profiles.*.sim.socket",
                                       "profiles.*.agent",
                                       "profiles.*.docker.host",
                                       "profiles.*.docker.container_prefix",
                                       "profiles.*.docker.user",
                                       "profiles.*.docker.network",
                                       "profiles.*.docker.port",
                                       "profiles.*.docker.bind_host",
                                       "profiles.*.docker.url_host",
                                       "profiles.*.docker.reach",
                                       "profiles.*.docker.disk",
                                       "profiles.*.sockets",
                                       "profiles.*.terminals",
                                       "profiles.*.durable",
                                       "profiles.*.docker.volumes",
                                       "profiles.*.docker.tmpfs",
                                       "profiles.*.docker.shm_size",
                                       "profiles.*.docker.gpus",
                                       "profiles.*.docker.cap_add",
                                       "profiles.*.docker.stop_grace_s",
                                       "profiles.*.remote.provisioner_url",
                                       "profiles.*.remote.max_shell_sessions",
                                       NULL};
    uint64_t plain = hash_of("");

    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        struct config *without = load_without(k);
        struct config *c = load_with(k, other_value(k));
        bool has_changed =
            config_spec_hash(&c->profiles[0]) != config_spec_hash(&without->profiles[0]);

        if (has_changed != is_in(spec, k->path))
            fail_msg("the hash and %s", k->path);
        (void) config_free(c);
        (void) config_free(without);
    }
    /* fixed values, because boxes outlive the daemon that computed their hash */
    assert_true(plain == 0xe3b0c44298fc1c14ULL);
    assert_true(hash_of("env: {A: b, C: d}") == hash_of("env: {C: d, A: b}"));
    assert_true(hash_of("env: {A: bc}") != hash_of("env: {Ab: c}"));
    /* settings of another backend than its own do not matter */
    assert_true(hash_of("backend: oci, sim: {socket: /x}") == hash_of("backend: oci"));
    /* the name of the profile neither */
    struct config *c = load("profiles: {other: {}}");
    assert_true(config_spec_hash(config_find_profile(c, "other")) == plain);
    (void) config_free(c);
}

/* What the mode of a network was called before changed no hash. */
static void test_hash_of_network(void **state)
{
    (void) state;
    assert_true(hash_of("network: nat") == hash_of("network: {mode: nat}"));
    assert_true(hash_of("network: nat") == 0x42dd71aea1267e4bULL);
}

static void test_backend_key(void **state)
{
    (void) state;
    char key[CONFIG_TEXT_MAX];

    struct config *c = load("profiles:\n"
                            "  a: {backend: sim, sim: {socket: /run/sim.sock, seed: 3}}\n"
                            "  b: {backend: oci, sim: {socket: /run/sim.sock}}\n"
                            "  c: {backend: sim}\n");
    config_backend_key(config_find_profile(c, "a"), key, sizeof(key));
    assert_string_equal(key, "sim:/run/sim.sock");
    config_backend_key(config_find_profile(c, "b"), key, sizeof(key));
    assert_string_equal(key, "oci");
    config_backend_key(config_find_profile(c, "c"), key, sizeof(key));
    assert_string_equal(key, "sim:");
    config_backend_key(config_find_profile(c, "default"), key, sizeof(key));
    assert_string_equal(key, "oci");
    (void) config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_key_goes_through),
        cmocka_unit_test(test_secrets_are_not_printed),
        cmocka_unit_test(test_ranges_hold),
        cmocka_unit_test(test_longest_texts),
        cmocka_unit_test(test_example_is_the_table),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_spec_hash),
        cmocka_unit_test(test_hash_of_network),
        cmocka_unit_test(test_backend_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
