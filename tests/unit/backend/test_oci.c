/* The `oci` backend with real boxes: the contract, and that nothing is left on the machine after
 * each test. Needs root and an OCI runtime; says so where they are missing. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "base/str.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"
#include "tests/unit/backend/conformance.h"

struct oci_fixture {
    struct fixture fixture;
    struct config *config;
    char dir[64];
};

static struct oci_fixture *oci_fixture_of(struct fixture *fixture)
{
    return container_of(fixture, struct oci_fixture, fixture);
}

static bool kill_box(struct fixture *fixture, uint64_t box_id)
{
    char path[160];
    char hex[17];
    FILE *f;
    int pid = 0;

    str_hex64(hex, box_id);
    (void) snprintf(path, sizeof(path), "%s/oci/boxes/%s/pid", oci_fixture_of(fixture)->dir, hex);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    if (fscanf(f, "%d", &pid) != 1)
        pid = 0;
    (void) fclose(f);
    return pid > 1 && kill(pid, SIGKILL) == 0;
}

static int set_up(void **state)
{
    const char *bin = getenv("SANDPOOL_BIN_DIR");
    struct oci_fixture *h = test_calloc(1, sizeof(*h));
    struct fixture *fixture = &h->fixture;

    assert_non_null(bin);
    tmpdir_make(h->dir);
    assert_int_equal(config_load(NULL, &h->config, NULL), SP_OK);
    (void) snprintf(h->config->agent.path, sizeof(h->config->agent.path), "%.200s/sandpool-agent",
                    bin);
    (void) snprintf(h->config->helper.path, sizeof(h->config->helper.path),
                    "%.200s/sandpool-helper", bin);
    fixture->ops = &oci_ops;
    fixture->state_dir = h->dir;
    fixture->config = h->config;
    fixture->profile = *config_find_profile(h->config, "default");
    fixture->slow = fixture->profile;
    fixture->kill_box = kill_box;
    fixture_open(fixture);
    *state = fixture;
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

static int tear_down(void **state)
{
    struct oci_fixture *h = oci_fixture_of(*state);
    char groups[128];

    /* A look also removes what is dead. On a busy machine that takes a while. */
    for (int i = 0; i < 300; i++) {
        (void) fixture_is_listed(&h->fixture, 0);
        if (count_entries(h->dir, "/oci/boxes") == 0)
            break;
        (void) usleep(100 * 1000);
    }
    fixture_close(&h->fixture);
    assert_int_equal(count_entries(h->dir, "/oci/boxes"), 0);
    assert_int_equal(count_entries(h->dir, "/oci/run-runc"), 0);
    (void) snprintf(groups, sizeof(groups), "/sys/fs/cgroup/memory/sandpool-%s",
                    fixture_instance());
    assert_int_equal(count_entries(groups, ""), 0);
    fixture_remove_groups();
    tmpdir_remove(h->dir); /* what the backend keeps for the next start */
    h->config = config_free(h->config);
    test_free(h);
    return 0;
}

/* Its listing must not take the boxes of a daemon with another state directory for leftovers. */
static void test_same_name_elsewhere(void **state)
{
    struct fixture *fixture = *state;
    const char *own = fixture->state_dir;
    char dir[TMPDIR_LEN];
    struct backend_create r;
    struct backend *other;
    bool is_listed;

    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    tmpdir_make(dir);
    fixture->state_dir = dir;
    other = fixture_open_other(fixture, fixture_instance());
    fixture->state_dir = own;
    assert_int_equal(fixture_list(fixture, other, r.labels.box_id, NULL, &is_listed), 0);
    fixture_close_backend(fixture, other); /* waits for what it removes */
    tmpdir_remove(dir);
    assert_true(fixture_is_listed(fixture, r.labels.box_id));
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
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
