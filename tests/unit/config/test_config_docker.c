/* What only containers have: volumes, file systems in memory, capabilities, graphics processors, the way a
 * box is reached, and the time it has for its end. */
#include <stdio.h>
#include <string.h>

#include "config/schema.h"
#include "tests/lib/unit.h"

#define HEAD "profiles: {a: {backend: docker, image: x, "

static void expect(const char *rest, const char *message)
{
    struct config *c = NULL;
    struct err err = {0};
    char text[512];
    const char *why;

    (void) snprintf(text, sizeof(text), HEAD "%s}}\n", rest);
    if (config_parse("t.yaml", text, strlen(text), &c, &err) != SP_OK)
        assert_null(c);
    if (message == NULL && c == NULL)
        fail_msg("%s\nin: %s", err.msg, text);
    if (message != NULL && c != NULL)
        fail_msg("was taken: %s", text);
    why = message != NULL ? strstr(err.msg, "profiles.a.") : NULL;
    if (message != NULL && (why == NULL || strcmp(why + 11, message) != 0))
        fail_msg("got:  %s\nwant: %s", err.msg, message);
    (void) config_free(c);
}

static void test_volumes(void **state)
{
    (void) state;
    static const char name[] =
        "needs the name of a volume: letters, digits and . _ -, a letter or digit first";
    static const struct {
        const char *entry;
        const char *why;
    } cases[] = {
        {"data:/a", NULL},
        {"data-1.b_c:/a/b:ro", NULL},
        {"data:/a:rw", NULL},
        {"data", "must be like name:/there or name:/there:ro"},
        {"data:/a:r", "can only end in :ro or :rw"},
        {"d:/a", name},
        {"/etc:/a", name},
        {".data:/a", name},
        {"da/ta:/a", name},
        {":/a", name},
        {"data:a", "needs an absolute path without '..', '.' and double or trailing slashes"},
        {"data:/a/..", "needs an absolute path without '..', '.' and double or trailing slashes"},
        {"data:/", "cannot cover /, /proc, /sys, /dev or /.sandpool of a box"},
        {"data:/.sandpool/agent", "cannot cover /, /proc, /sys, /dev or /.sandpool of a box"},
    };
    char text[128];
    char want[256];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void) snprintf(text, sizeof(text), "docker: {volumes: ['ok:/ok', '%s']}", cases[i].entry);
        (void) snprintf(want, sizeof(want), "docker.volumes entry '%s' %s", cases[i].entry,
                        cases[i].why != NULL ? cases[i].why : "");
        expect(text, cases[i].why != NULL ? want : NULL);
    }
}

static void test_tmpfs(void **state)
{
    (void) state;
    static const char options[] = "can have size=64m, mode=1777, uid=, gid=, nr_inodes= and exec";
    static const struct {
        const char *path;
        const char *options;
        const char *why;
    } cases[] = {
        {"/a", "", NULL},
        {"/a", "size=64m,mode=1777,uid=0,gid=1000,nr_inodes=100,exec", NULL},
        {"/a", "size=0", options},
        {"/a", "size=64x", options},
        {"/a", "mode=9", options},
        {"/a", "mode=", options},
        {"/a", "uid=-1", options},
        {"/a", "suid", options},
        {"/a", "dev", options},
        {"/a", "size=1m,,exec", options},
        {"a", "", "needs an absolute path without '..', '.' and double or trailing slashes"},
        {"/dev/shm", "", "cannot cover /, /proc, /sys, /dev or /.sandpool of a box"},
    };
    char text[128];
    char want[256];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void) snprintf(text, sizeof(text), "docker: {tmpfs: {'%s': '%s'}}", cases[i].path,
                        cases[i].options);
        (void) snprintf(want, sizeof(want), "docker.tmpfs entry '%s' %s", cases[i].path,
                        cases[i].why != NULL ? cases[i].why : "");
        expect(text, cases[i].why != NULL ? want : NULL);
    }
}

static void test_gpus(void **state)
{
    (void) state;
    static const char *const good[] = {
        "", "all", "1", "64", "device=0", "device=0,1", "GPU-3faa8-219", "0,1", "GPU-1,GPU-2"};
    static const char *const bad[] = {"0", "65", "none!", "device=", "device=0,", ",1", "1 2"};
    char text[128];

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        (void) snprintf(text, sizeof(text), "docker: {gpus: '%s'}", good[i]);
        expect(text, NULL);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        (void) snprintf(text, sizeof(text), "docker: {gpus: '%s'}", bad[i]);
        expect(text, "docker.gpus must be all, how many (1 to 64), or which: device=0,1");
    }
}

static void test_others(void **state)
{
    (void) state;
    expect("docker: {cap_add: [NET_RAW, SYS_PTRACE, CHECKPOINT_RESTORE]}", NULL);
    expect(
        "docker: {cap_add: [CAP_NET_RAW]}",
        "docker.cap_add entry 'CAP_NET_RAW' is not a capability: use names like NET_RAW, without "
        "CAP_");
    expect("docker: {cap_add: [ALL]}",
           "docker.cap_add entry 'ALL' is not a capability: use names like NET_RAW, without CAP_");
    expect("network: nat, docker: {reach: address}", NULL);
    expect("docker: {reach: address}",
           "docker.reach address needs `network: nat`: otherwise a box has no address");
    expect("network: nat, runtime: runsc", NULL);
    expect("runtime: runsc",
           "network must be nat with backend docker and this runtime: no socket can "
           "be passed in");
    expect("docker: {shm_size: 64k}", NULL);
    expect("docker: {shm_size: 1k}",
           "docker.shm_size must be 0 (as the engine does) or at least 64k");
    expect("destroy_timeout_s: 30, docker: {stop_grace_s: 29}", NULL);
    expect("destroy_timeout_s: 30, docker: {stop_grace_s: 30}",
           "docker.stop_grace_s (30) is more than what destroy_timeout_s leaves (29)");
}

/* With another backend they do not matter. */
static void test_not_docker(void **state)
{
    (void) state;
    const char *text = "profiles: {a: {backend: sim, docker: {cap_add: [X], gpus: '?'}}}\n";
    struct config *c = NULL;

    assert_int_equal(config_parse("t.yaml", text, strlen(text), &c, NULL), SP_OK);
    (void) config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volumes),    cmocka_unit_test(test_tmpfs),
        cmocka_unit_test(test_gpus),       cmocka_unit_test(test_others),
        cmocka_unit_test(test_not_docker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
