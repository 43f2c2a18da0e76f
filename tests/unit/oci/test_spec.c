/* config.json holds what the profile asks for and nothing that it does not (test_box_rules.py looks
 * from inside a box). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/oci/spec.h"
#include "base/json.h"
#include "base/str.h"
#include "tests/lib/unit.h"

#define TEXT_MAX ((size_t) 1 << 20)

struct fixture {
    struct config_profile profile;
    struct oci_spec spec;
    struct json_doc *doc;
};

static const char *const agent_args[] = {"--channel-fd", "3", "--user", "it's \"me\"", NULL};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    assert_true(str_copy(f->profile.user, sizeof(f->profile.user), "user"));
    f->profile.terminals = CONFIG_TERMINALS_MAX;
    f->profile.limits.memory = 512 << 20;
    f->profile.limits.cpus = 1500;
    f->profile.limits.pids = 256;
    f->spec = (struct oci_spec){.profile = &f->profile,
                                .rootfs = "/mnt/rootfs",
                                .hostname = "0123456789abcdef",
                                .token = "to\"ken\\",
                                .cgroup = "/sandpool-x/0123456789abcdef",
                                .id_base = 1610612736,
                                .id_count = 65536,
                                .host_cpus = 4,
                                .has_cpuset = true,
                                .has_cgroups = true,
                                .has_swap_limit = true,
                                .has_user_ns = true,
                                .agent_args = agent_args};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    f->doc = json_doc_free(f->doc);
    free(f);
    return 0;
}

/* Prints, parses (strictly: no key twice) and returns the root. */
static const struct json *printed(struct fixture *f)
{
    struct buf text;
    struct err err = {0};

    buf_init(&text, TEXT_MAX);
    oci_spec_print(&f->spec, &text);
    assert_false(buf_failed(&text));
    f->doc = json_doc_free(f->doc);
    f->doc = json_parse(buf_str(&text), text.len, TEXT_MAX, &err);
    buf_fini(&text);
    if (f->doc == NULL)
        fail_msg("%s", err.msg);
    return json_root(f->doc);
}

/* "linux.resources.cpu": NULL when there is none. */
static const struct json *at(const struct json *v, const char *path)
{
    char key[64];

    while (v != NULL && *path != '\0') {
        size_t len = strcspn(path, ".");
        assert_true(str_copy_n(key, sizeof(key), path, len));
        v = json_get(v, key);
        path += len + (path[len] == '.');
    }
    return v;
}

static const char *text_at(const struct json *v, const char *path)
{
    const char *text = json_str(at(v, path));
    return text != NULL ? text : "(none)";
}

static uint64_t number_at(const struct json *v, const char *path)
{
    uint64_t n = 0;

    assert_true(json_u64(at(v, path), &n));
    return n;
}

static bool has_item(const struct json *list, const char *text)
{
    for (size_t i = 0; i < json_len(list); i++) {
        const char *item = json_str(json_at(list, i));
        if (item != NULL && strcmp(item, text) == 0)
            return true;
    }
    return false;
}

/* The object in `list` whose member `key` is `text`. */
static const struct json *find(const struct json *list, const char *key, const char *text)
{
    for (size_t i = 0; i < json_len(list); i++) {
        if (strcmp(text_at(json_at(list, i), key), text) == 0)
            return json_at(list, i);
    }
    return NULL;
}

static void process_of_a_box(void **state)
{
    struct fixture *f = *state;
    const struct json *root = printed(f);
    const struct json *args = at(root, "process.args");
    static const char *const sets[] = {"bounding", "permitted", "effective"};

    assert_string_equal(text_at(root, "ociVersion"), "1.0.2");
    assert_string_equal(text_at(root, "root.path"), "/mnt/rootfs");
    assert_string_equal(text_at(root, "hostname"), "0123456789abcdef");
    assert_int_equal(json_len(args), 5);
    assert_string_equal(json_str(json_at(args, 0)), OCI_AGENT_PATH);
    assert_string_equal(json_str(json_at(args, 4)), "it's \"me\"");
    assert_true(json_bool(at(root, "process.noNewPrivileges")));
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        const struct json *caps = json_get(at(root, "process.capabilities"), sets[i]);
        assert_int_equal(json_len(caps), 10);
        assert_true(has_item(caps, "CAP_SETUID"));
        assert_false(has_item(caps, "CAP_SYS_ADMIN"));
    }
    assert_int_equal(json_len(at(root, "process.capabilities.ambient")), 0);
    assert_int_equal(json_len(at(root, "process.capabilities.inheritable")), 0);
}

static void later_environment_wins(void **state)
{
    struct fixture *f = *state;
    static const char *const image[] = {"PATH=/image/bin", "LANG=de", "A=image",
                                        "broken",          "=x",      NULL};
    static char names[][24] = {"A", "B", "SANDPOOL_AGENT_TOKEN"};
    static char values[][40] = {"own = \"quoted\" \\ \n \xc3\xa9", "", "forged"};
    struct config_pair pairs[3];
    const struct json *env;

    for (size_t i = 0; i < 3; i++)
        pairs[i] = (struct config_pair){.key = names[i], .value = values[i]};
    f->profile.env.count = 3;
    f->profile.env.pairs = pairs;
    f->spec.image_env = image;
    env = at(printed(f), "process.env");
    assert_int_equal(json_len(env), 7);
    assert_true(has_item(env, "PATH=/image/bin"));
    assert_true(has_item(env, "LANG=de"));
    assert_true(has_item(env, "HOME=/home/user"));
    assert_true(has_item(env, "USER=user"));
    assert_true(has_item(env, "A=own = \"quoted\" \\ \n \xc3\xa9"));
    assert_true(has_item(env, "B="));
    assert_true(has_item(env, "SANDPOOL_AGENT_TOKEN=to\"ken\\"));
}

static void home_of_root(void **state)
{
    struct fixture *f = *state;

    assert_true(str_copy(f->profile.user, sizeof(f->profile.user), "root"));
    assert_true(has_item(at(printed(f), "process.env"), "HOME=/root"));
}

static void files_within_the_daemons_limit(void **state)
{
    struct fixture *f = *state;
    static const struct {
        uint64_t own;
        uint64_t expected;
    } cases[] = {{0, 65536}, {20000, 20000}, {1048576, 65536}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        f->spec.max_files = cases[i].own;
        const struct json *limits = at(printed(f), "process.rlimits");
        const struct json *files = find(limits, "type", "RLIMIT_NOFILE");
        assert_int_equal(number_at(files, "hard"), cases[i].expected);
        assert_int_equal(number_at(files, "soft"), cases[i].expected);
        assert_int_equal(number_at(find(limits, "type", "RLIMIT_CORE"), "hard"), 0);
    }
}

static void user_namespace_or_not(void **state)
{
    struct fixture *f = *state;
    const struct json *root = printed(f);
    const struct json *map = json_at(at(root, "linux.uidMappings"), 0);

    assert_non_null(find(at(root, "linux.namespaces"), "type", "user"));
    assert_int_equal(number_at(map, "containerID"), 0);
    assert_int_equal(number_at(map, "hostID"), 1610612736);
    assert_int_equal(number_at(map, "size"), 65536);
    assert_int_equal(json_len(at(root, "linux.gidMappings")), 1);
    f->spec.has_user_ns = false;
    root = printed(f);
    assert_null(find(at(root, "linux.namespaces"), "type", "user"));
    assert_null(at(root, "linux.uidMappings"));
    assert_non_null(find(at(root, "linux.namespaces"), "type", "pid"));
}

static void network_decides_about_sys(void **state)
{
    struct fixture *f = *state;
    const struct json *root;

    for (unsigned n = 0; n < CONFIG_NETWORK_COUNT; n++) {
        bool is_host = n == CONFIG_NETWORK_HOST;
        f->profile.network.mode = (enum config_network) n;
        root = printed(f);
        assert_int_equal(find(at(root, "linux.namespaces"), "type", "network") == NULL, is_host);
        const struct json *sys = find(at(root, "mounts"), "destination", "/sys");
        assert_string_equal(text_at(sys, "type"), is_host ? "tmpfs" : "sysfs");
        assert_true(has_item(at(sys, "options"), "ro"));
    }
}

static void mounts_of_a_box(void **state)
{
    struct fixture *f = *state;
    const struct json *mounts = at(printed(f), "mounts");
    const struct json *pts = find(mounts, "destination", "/dev/pts");

    assert_null(find(mounts, "destination", "/tmp")); /* on the disk, within its limit */
    assert_true(has_item(at(pts, "options"), "gid=5"));
    assert_true(has_item(at(find(mounts, "destination", "/sys/fs/cgroup"), "options"), "ro"));
    f->spec.id_count = 1;
    f->spec.has_cgroups = false;
    mounts = at(printed(f), "mounts");
    assert_false(has_item(at(find(mounts, "destination", "/dev/pts"), "options"), "gid=5"));
    assert_null(find(mounts, "destination", "/sys/fs/cgroup"));
    /* The share of the machine's terminals, or less. */
    f->spec.terminals = 40;
    pts = find(at(printed(f), "mounts"), "destination", "/dev/pts");
    assert_true(has_item(at(pts, "options"), "max=40"));
    f->profile.terminals = 3;
    pts = find(at(printed(f), "mounts"), "destination", "/dev/pts");
    assert_true(has_item(at(pts, "options"), "max=3"));
    f->profile.terminals = 0;
    assert_null(find(at(printed(f), "mounts"), "destination", "/dev/pts"));
}

static void limits_of_a_box(void **state)
{
    struct fixture *f = *state;
    const struct json *root = printed(f);

    assert_string_equal(text_at(root, "linux.cgroupsPath"), f->spec.cgroup);
    assert_int_equal(number_at(root, "linux.resources.memory.limit"), 512 << 20);
    assert_int_equal(number_at(root, "linux.resources.memory.swap"), 512 << 20);
    assert_int_equal(number_at(root, "linux.resources.pids.limit"), 256);
    assert_int_equal(number_at(root, "linux.resources.cpu.quota"), 150000);
    assert_int_equal(number_at(root, "linux.resources.cpu.period"), 100000);
    f->spec.has_swap_limit = false;
    assert_null(at(printed(f), "linux.resources.memory.swap"));
    memset(&f->profile.limits, 0, sizeof(f->profile.limits));
    root = printed(f);
    assert_non_null(at(root, "linux.resources.devices"));
    assert_null(at(root, "linux.resources.memory"));
    assert_null(at(root, "linux.resources.cpu"));
    assert_null(at(root, "linux.resources.pids"));
    f->spec.has_cgroups = false;
    root = printed(f);
    assert_null(at(root, "linux.resources"));
    assert_null(at(root, "linux.cgroupsPath"));
}

static uint64_t sockets_of(struct fixture *f, uint64_t memory)
{
    f->profile.limits.memory = memory;
    return oci_spec_sockets(&f->spec);
}

/* As many as the memory of the box is worth; the network they are in is the box's own. */
static void sockets_of_a_box(void **state)
{
    struct fixture *f = *state;
    const struct json *sysctl;

    assert_int_equal(oci_spec_sockets(&f->spec), 0); /* nobody counts */
    assert_null(json_get(json_get(printed(f), "linux"), "sysctl"));
    f->doc = json_doc_free(f->doc);
    f->spec.guard = "/mnt/guard.sock";
    assert_int_equal(sockets_of(f, 0), 4096);
    assert_int_equal(sockets_of(f, 1 << 20), 128);
    assert_int_equal(sockets_of(f, 64 << 20), 128);
    assert_int_equal(sockets_of(f, 512 << 20), 1024);
    assert_int_equal(sockets_of(f, 1ULL << 40), 4096);
    sysctl = json_get(json_get(printed(f), "linux"), "sysctl");
    assert_string_equal(json_str(json_get(sysctl, "net.ipv4.tcp_fastopen")), "0");
    assert_string_equal(json_str(json_get(sysctl, "net.ipv4.tcp_rmem")), "4096 131072 425984");
    assert_string_equal(json_str(json_get(sysctl, "net.ipv4.tcp_max_tw_buckets")), "4096");
    f->doc = json_doc_free(f->doc);
    f->profile.network.mode = CONFIG_NETWORK_HOST; /* settings there would be the machine's */
    assert_int_equal(oci_spec_sockets(&f->spec), 0);
    assert_null(json_get(json_get(printed(f), "linux"), "sysctl"));
}

static void processors_go_round(void **state)
{
    struct fixture *f = *state;
    static const struct {
        uint64_t cpus;
        unsigned host;
        unsigned first;
        const char *expected;
    } cases[] = {
        {1000, 4, 0, "0-0"},     {1500, 4, 1, "1-2"},    {2000, 4, 3, "0-0,3-3"},
        {3000, 4, 7, "0-1,3-3"}, {4000, 4, 1, "(none)"}, {9000, 4, 0, "(none)"},
        {1, 2, 5, "1-1"},        {1000, 1, 0, "(none)"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        f->profile.limits.cpus = cases[i].cpus;
        f->spec.host_cpus = cases[i].host;
        f->spec.first_cpu = cases[i].first;
        assert_string_equal(text_at(printed(f), "linux.resources.cpu.cpus"), cases[i].expected);
    }
    f->profile.limits.cpus = 1000;
    f->spec.host_cpus = 2;
    f->spec.first_cpu = 1;
    f->spec.has_user_ns = false;
    assert_null(at(printed(f), "linux.resources.cpu.cpus"));
    f->spec.is_cgroup_v2 = true;
    assert_string_equal(text_at(printed(f), "linux.resources.cpu.cpus"), "1-1");
    f->spec.has_cpuset = false;
    assert_null(at(printed(f), "linux.resources.cpu.cpus"));
    f->profile.limits.cpus = 1; /* a thousandth: less than the kernel takes */
    assert_int_equal(number_at(printed(f), "linux.resources.cpu.quota"), 1000);
}

static void hidden_parts_of_the_machine(void **state)
{
    struct fixture *f = *state;
    static const char buses[][OCI_BUS_LEN] = {"pci0000:00", "platform"};
    static const char *const masked[] = {"/proc/kcore",
                                         "/proc/keys",
                                         "/proc/locks",
                                         "/proc/timer_list",
                                         "/sys/firmware",
                                         "/sys/devices/virtual/powercap",
                                         "/sys/devices/system/cpu/cpu3/thermal_throttle",
                                         "/sys/devices/pci0000:00",
                                         "/sys/devices/platform"};
    const struct json *root;

    f->spec.disk_buses = buses;
    f->spec.disk_bus_count = ARRAY_LEN(buses);
    root = printed(f);
    for (size_t i = 0; i < ARRAY_LEN(masked); i++)
        assert_true(has_item(at(root, "linux.maskedPaths"), masked[i]));
    assert_true(has_item(at(root, "linux.readonlyPaths"), "/proc/sys"));
    assert_true(has_item(at(root, "linux.readonlyPaths"), "/proc/sysrq-trigger"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(process_of_a_box),
        TEST(later_environment_wins),
        TEST(home_of_root),
        TEST(files_within_the_daemons_limit),
        TEST(user_namespace_or_not),
        TEST(network_decides_about_sys),
        TEST(mounts_of_a_box),
        TEST(limits_of_a_box),
        TEST(sockets_of_a_box),
        TEST(processors_go_round),
        TEST(hidden_parts_of_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
