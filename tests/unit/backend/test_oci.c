/* The `oci` backend with real boxes: the contract, and that nothing is left on the machine after
 * each test. Needs root and an OCI runtime; says so where they are missing. */
#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/oci/oci.h"
#include "base/str.h"
#include "tests/unit/backend/conformance.h"

struct oci_rig {
    struct rig rig;
    struct config *config;
    char dir[64];
};

static struct oci_rig *oci_rig_of(struct rig *rig)
{
    return container_of(rig, struct oci_rig, rig);
}

static bool kill_box(struct rig *rig, uint64_t box_id)
{
    char path[160];
    char hex[17];
    FILE *f;
    int pid = 0;

    str_hex64(hex, box_id);
    (void) snprintf(path, sizeof(path), "%s/oci/boxes/%s/pid", oci_rig_of(rig)->dir, hex);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    if (fscanf(f, "%d", &pid) != 1)
        pid = 0;
    (void) fclose(f);
    return pid > 1 && kill(pid, SIGKILL) == 0;
}

#define DIR_NAME "/sandpool-test-"

/* A state directory, where the other tests have theirs. */
static void make_dir(char *ret, size_t cap)
{
    const char *top = getenv("TMPDIR");

    (void) snprintf(ret, cap, "%s" DIR_NAME "XXXXXX", top == NULL ? "/tmp" : top);
    assert_non_null(mkdtemp(ret));
}

static int set_up(void **state)
{
    const char *bin = getenv("SANDPOOL_BIN_DIR");
    struct oci_rig *h = test_calloc(1, sizeof(*h));
    struct rig *rig = &h->rig;

    assert_non_null(bin);
    make_dir(h->dir, sizeof(h->dir));
    assert_int_equal(config_load(NULL, &h->config, NULL), SP_OK);
    (void) snprintf(h->config->agent.path, sizeof(h->config->agent.path), "%.200s/sandpool-agent",
                    bin);
    (void) snprintf(h->config->helper.path, sizeof(h->config->helper.path),
                    "%.200s/sandpool-helper", bin);
    rig->ops = &oci_ops;
    rig->state_dir = h->dir;
    rig->config = h->config;
    rig->profile = *config_find_profile(h->config, "default");
    rig->slow = rig->profile;
    rig->kill_box = kill_box;
    rig_open(rig);
    *state = rig;
    return 0;
}

static size_t count_entries(const char *dir, const char *below)
{
    char path[160];
    struct dirent *entry;
    size_t count = 0;
    DIR *d;

    (void) snprintf(path, sizeof(path), "%s%s", dir, below);
    d = opendir(path);
    if (d == NULL)
        return 0;
    while ((entry = readdir(d)) != NULL)
        count += entry->d_name[0] != '.' && entry->d_type == DT_DIR;
    (void) closedir(d);
    return count;
}

static int remove_entry(const char *path, const struct stat *st UNUSED, int type UNUSED,
                        struct FTW *ftw UNUSED)
{
    return remove(path);
}

/* Removes what the backend keeps for the next start. */
static void remove_dir(const char *dir)
{
    assert_non_null(strstr(dir, DIR_NAME));
    assert_int_equal(nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT), 0);
}

static int tear_down(void **state)
{
    struct oci_rig *h = oci_rig_of(*state);
    char groups[128];

    /* A look also removes what is dead. On a busy machine that takes a while. */
    for (int i = 0; i < 300; i++) {
        (void) rig_is_listed(&h->rig, 0);
        if (count_entries(h->dir, "/oci/boxes") == 0)
            break;
        (void) usleep(100 * 1000);
    }
    rig_close(&h->rig);
    assert_int_equal(count_entries(h->dir, "/oci/boxes"), 0);
    assert_int_equal(count_entries(h->dir, "/oci/run-runc"), 0);
    (void) snprintf(groups, sizeof(groups), "/sys/fs/cgroup/memory/sandpool-%s", rig_instance());
    assert_int_equal(count_entries(groups, ""), 0);
    rig_remove_groups();
    remove_dir(h->dir);
    h->config = config_free(h->config);
    test_free(h);
    return 0;
}

/* Its listing must not take the boxes of a daemon with another state directory for leftovers. */
static void test_same_name_elsewhere(void **state)
{
    struct rig *rig = *state;
    const char *own = rig->state_dir;
    char dir[96];
    struct backend_create r;
    struct backend *other;
    bool is_listed;

    assert_int_equal(rig_create(rig, &r, &rig->profile), SP_OK);
    make_dir(dir, sizeof(dir));
    rig->state_dir = dir;
    other = rig_open_other(rig, rig_instance());
    rig->state_dir = own;
    assert_int_equal(rig_list(rig, other, r.labels.box_id, NULL, &is_listed), 0);
    rig_close_backend(rig, other); /* waits for what it removes */
    remove_dir(dir);
    assert_true(rig_is_listed(rig, r.labels.box_id));
    assert_int_equal(rig_destroy(rig, rig->backend, &r.labels), SP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONFORMANCE_TESTS(set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_name_elsewhere, set_up, tear_down),
    };

    if (geteuid() != 0) {
        (void) fprintf(stderr, "SKIPPED: the oci backend needs root\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
