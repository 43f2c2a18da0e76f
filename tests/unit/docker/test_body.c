/* The request for a new container, by profile. GPUs above all: no engine here has any, so this is
 * all that can be tried of them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/str.h"
#include "tests/lib/unit.h"

struct body {
    struct config *config;
    struct docker_plan plan;
    struct backend_labels labels;
    struct json_doc *doc;
    struct buf part;
};

static void make(struct body *b, const char *rest)
{
    char text[512];
    struct buf out;
    struct err err;

    (void) snprintf(text, sizeof(text), "profiles: {default: {backend: docker, image: x, %s}}\n",
                    rest);
    if (config_parse("t.yaml", text, strlen(text), &b->config, &err) != SP_OK)
        fail_msg("%s", err.msg);
    b->labels.box_id = 0xabc;
    b->plan.profile = &b->config->profiles[0];
    b->plan.labels = &b->labels;
    b->plan.token = "secret";
    b->plan.image = b->plan.profile->image;
    b->plan.work_dir = "";
    if (b->plan.image_user == NULL)
        b->plan.image_user = "";
    buf_init(&out, DOCKER_BODY_MAX);
    docker_put_body(&b->plan, &out);
    b->doc = json_parse(buf_str(&out), out.len, DOCKER_BODY_MAX, &err);
    assert_non_null(b->doc);
    buf_fini(&out);
    buf_init(&b->part, DOCKER_BODY_MAX);
}

/* A member of HostConfig as text; "" when it is not there. */
static const char *host(struct body *b, const char *key)
{
    const struct json *v = json_get(json_get(json_root(b->doc), "HostConfig"), key);

    buf_reset(&b->part);
    if (v != NULL)
        json_print(v, &b->part);
    return buf_str(&b->part);
}

static const char *top(struct body *b, const char *key)
{
    const struct json *v = json_get(json_root(b->doc), key);

    buf_reset(&b->part);
    if (v != NULL)
        json_print(v, &b->part);
    return buf_str(&b->part);
}

static void fini(struct body *b)
{
    b->doc = json_doc_free(b->doc);
    b->config = config_free(b->config);
    buf_fini(&b->part);
}

static void test_gpus(void **state)
{
    (void) state;
    static const struct {
        const char *gpus;
        const char *want;
    } cases[] = {
        {"", ""},
        {"all", "[{\"Driver\":\"\",\"Count\":-1,\"Capabilities\":[[\"gpu\"]]}]"},
        {"2", "[{\"Driver\":\"\",\"Count\":2,\"Capabilities\":[[\"gpu\"]]}]"},
        {"device=0", "[{\"Driver\":\"\",\"DeviceIDs\":[\"0\"],\"Capabilities\":[[\"gpu\"]]}]"},
        {"GPU-1,GPU-2",
         "[{\"Driver\":\"\",\"DeviceIDs\":[\"GPU-1\",\"GPU-2\"],\"Capabilities\":[[\"gpu\"]]}]"},
    };
    char text[64];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct body b = {0};

        (void) snprintf(text, sizeof(text), "docker: {gpus: '%s'}", cases[i].gpus);
        make(&b, text);
        assert_string_equal(host(&b, "DeviceRequests"), cases[i].want);
        fini(&b);
    }
}

static void test_capabilities(void **state)
{
    (void) state;
#define FEW "[\"CHOWN\",\"DAC_OVERRIDE\",\"FOWNER\",\"SETGID\",\"SETUID\""
    static const struct {
        const char *image_user;
        const char *rest;
        const char *want;
    } cases[] = {
        {"", "", FEW ",\"KILL\"]"},
        {"root", "", FEW ",\"KILL\"]"},
        {"0:0", "", FEW ",\"KILL\"]"},
        {"ann", "", "[]"},
        {"1000:0", "", "[]"},
        {"rooty", "", "[]"},
        {"ann", "docker: {user: root}", FEW ",\"KILL\"]"},
        {"", "docker: {user: '1000'}", "[]"},
        {"", "agent: image, network: nat", FEW "]"},
        {"ann", "docker: {cap_add: [NET_RAW]}", "[\"NET_RAW\"]"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct body b = {.plan.image_user = cases[i].image_user};

        make(&b, cases[i].rest);
        assert_string_equal(host(&b, "CapAdd"), cases[i].want);
        assert_string_equal(host(&b, "CapDrop"), "[\"ALL\"]");
        assert_string_equal(host(&b, "SecurityOpt"), "[\"no-new-privileges\"]");
        assert_non_null(strstr(host(&b, "MaskedPaths"), "\"/proc/kcore\""));
        assert_non_null(strstr(host(&b, "MaskedPaths"), "\"/proc/locks\""));
        fini(&b);
    }
}

static void test_mounts(void **state)
{
    (void) state;
    struct body b = {0};

    make(&b, "docker: {volumes: ['data:/a', 'sets:/b:ro'], shm_size: 2M, "
             "tmpfs: {/s: 'size=1m,mode=0700', /t: 'exec', /u: ''}}");
    assert_string_equal(
        host(&b, "Mounts"),
        "[{\"Type\":\"volume\",\"Source\":\"data\",\"Target\":\"/a\",\"ReadOnly\":false},"
        "{\"Type\":\"volume\",\"Source\":\"sets\",\"Target\":\"/b\",\"ReadOnly\":true}]");
    assert_string_equal(host(&b, "Tmpfs"),
                        "{\"/s\":\"nosuid,nodev,size=1048576,mode=0700,noexec\","
                        "\"/t\":\"nosuid,nodev,exec\",\"/u\":\"nosuid,nodev,noexec\"}");
    assert_string_equal(host(&b, "ShmSize"), "2097152");
    fini(&b);
    make(&b, "network: nat, runtime: runsc");
    assert_string_equal(host(&b, "Tmpfs"), "");
    assert_string_equal(host(&b, "ShmSize"), "");
    assert_string_equal(host(&b, "Runtime"), "\"runsc\"");
    fini(&b);
}

static void test_reach(void **state)
{
    (void) state;
    struct body b = {0};

    make(&b, "network: nat, docker: {bind_host: 0.0.0.0, url_host: 10.0.0.1, network: own}");
    assert_string_equal(host(&b, "PortBindings"),
                        "{\"8080/tcp\":[{\"HostIp\":\"0.0.0.0\",\"HostPort\":\"\"}]}");
    assert_string_equal(host(&b, "NetworkMode"), "\"own\"");
    assert_string_equal(top(&b, "ExposedPorts"), "{\"8080/tcp\":{}}");
    fini(&b);
    b.plan.is_podman = true;
    make(&b, "network: nat, docker: {bind_host: 0.0.0.0}");
    assert_string_equal(host(&b, "PortBindings"),
                        "{\"8080/tcp\":[{\"HostIp\":\"\",\"HostPort\":\"\"}]}");
    fini(&b);
    make(&b, "network: nat, docker: {reach: address, network: own}");
    assert_string_equal(host(&b, "PortBindings"), "");
    assert_string_equal(top(&b, "ExposedPorts"), "");
    assert_non_null(strstr(top(&b, "Labels"), "\"sandpool.network\":\"own\""));
    assert_non_null(strstr(top(&b, "Labels"), "\"sandpool.port\":\"8080\""));
    fini(&b);
}

static void test_command(void **state)
{
    (void) state;
    struct body b = {0};

    make(&b, "network: nat, docker: {stop_grace_s: 7}");
    assert_string_equal(top(&b, "Entrypoint"),
                        "[\"/.sandpool/agent\",\"--detach-stdio\",\"--refuse-programs\","
                        "\"--listen\",\"0.0.0.0\","
                        "\"--stop-grace\",\"7\"]");
    fini(&b);
    make(&b, "network: nat, agent: image, docker: {stop_grace_s: 7}");
    assert_string_equal(top(&b, "Entrypoint"), "");
    fini(&b);
}

static void test_late(void **state)
{
    (void) state;
    static const struct {
        const char *rest;
        unsigned want;
    } cases[] = {
        {"", BACKEND_LATE_ALL},
        {"runtime: runc", BACKEND_LATE_ALL},
        {"network: nat, runtime: runsc", BACKEND_LATE_ENVS | BACKEND_LATE_LIMITS},
        {"network: nat, runtime: kata-qemu", BACKEND_LATE_ENVS | BACKEND_LATE_LIMITS},
        {"agent: image, network: nat", BACKEND_LATE_MOUNTS | BACKEND_LATE_LIMITS},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct body b = {0};

        make(&b, cases[i].rest);
        assert_int_equal(docker_ops.late & docker_ops.late_of(b.plan.profile), cases[i].want);
        fini(&b);
    }
}

/* Where nothing can be mounted later it is known before a box is changed. */
static void test_mounts_of_engines_elsewhere(void **state)
{
    (void) state;
    struct docker d = {.helper = "/x/sandpool-helper"};
    struct err err;

    assert_int_equal(docker_mount_check(&d, &err), SP_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "need an engine on this machine"));
    str_copy_cut(d.socket, sizeof(d.socket), "/x/docker.sock");
    assert_int_equal(docker_mount_check(&d, &err), geteuid() == 0 ? SP_OK : SP_UNSUPPORTED);
    d.helper[0] = '\0';
    assert_int_equal(docker_mount_check(&d, &err), SP_UNSUPPORTED);
}

/* What the caller of a box wants goes before what the profile says. */
static void test_extras(void **state)
{
    static const struct backend_env_var envs[] = {
        {"A", "mine"}, {"B", ""}, {"SANDPOOL_AGENT_TOKEN", "stolen"}};
    static const struct backend_mount mounts[] = {
        {.host_path = "/srv/mine", .box_path = "/data", .is_read_only = true},
        {.host_path = "/srv/more", .box_path = "/more"}};
    const struct backend_extras extras = {.envs = envs,
                                          .env_count = 3,
                                          .mounts = mounts,
                                          .mount_count = 2,
                                          .memory = 32 << 20,
                                          .cpus = 500};
    struct body b = {.plan.extras = &extras};

    (void) state;
    make(&b, "env: {A: profile, C: kept}, mounts: [\"/srv/own:/data\", \"/srv/own:/own\"], "
             "limits: {memory: 64M, pids: 7}, network: nat}}\nmounts: {allow: [/srv]}\n#");
    assert_string_equal(top(&b, "Env"),
                        "[\"C=kept\",\"A=mine\",\"B=\",\"SANDPOOL_AGENT_TOKEN=secret\"]");
    assert_string_equal(
        host(&b, "Mounts"),
        "[{\"Type\":\"bind\",\"Source\":\"/srv/own\",\"Target\":\"/own\",\"ReadOnly\":false},"
        "{\"Type\":\"bind\",\"Source\":\"/srv/mine\",\"Target\":\"/data\",\"ReadOnly\":true},"
        "{\"Type\":\"bind\",\"Source\":\"/srv/more\",\"Target\":\"/more\",\"ReadOnly\":false}]");
    assert_string_equal(host(&b, "Memory"), "33554432");
    assert_string_equal(host(&b, "MemorySwap"), "33554432");
    assert_string_equal(host(&b, "NanoCpus"), "500000000");
    assert_string_equal(host(&b, "PidsLimit"), "7");
    fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extras),       cmocka_unit_test(test_gpus),
        cmocka_unit_test(test_capabilities), cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_reach),        cmocka_unit_test(test_command),
        cmocka_unit_test(test_late),         cmocka_unit_test(test_mounts_of_engines_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
