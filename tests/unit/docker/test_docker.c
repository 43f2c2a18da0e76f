/* The `docker` backend with real containers: the contract, on a Docker engine that engine.py starts for
 * it; engine.py also asks the engine what is left. Once for boxes whose socket is handed over, once
 * for published ports and an uploaded agent. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/docker/docker.h"
#include "base/str.h"
#include "tests/unit/backend/conformance.h"

struct docker_rig {
    struct rig rig;
    struct config *config;
    char dir[64];
};

static struct docker_rig *docker_rig_of(struct rig *rig)
{
    return container_of(rig, struct docker_rig, rig);
}

/* As a person would: not through the backend. The status of the answer; 0: there was none. */
static int post(struct rig *rig, const char *path, const char *body)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    struct httpc_request r = {.method = "POST",
                              .response_max = 4096,
                              .headers = headers,
                              .body = body,
                              .body_len = strlen(body)};
    const char *address = getenv("SANDPOOL_TEST_DOCKER");
    char url[128];

    (void) snprintf(url, sizeof(url), "http://docker%s", path);
    r.url = url;
    r.unix_socket = address + strlen("unix://");
    rig->is_calling = false;
    rig->pending++;
    httpc_start(rig->http, &r, rig_soon(rig), rig_done);
    rig_wait(rig);
    httpc_request_fini(&r);
    return r.op.result == SP_OK ? r.status : 0;
}

static bool kill_box(struct rig *rig, uint64_t box_id)
{
    char path[64];
    char hex[17];

    str_hex64(hex, box_id);
    (void) snprintf(path, sizeof(path), "/containers/sandpool-%s/kill", hex);
    return post(rig, path, "") == 204;
}

static struct docker_rig *new_rig(void)
{
    const char *bin = getenv("SANDPOOL_BIN_DIR");
    const char *address = getenv("SANDPOOL_TEST_DOCKER");
    struct docker_rig *h = test_calloc(1, sizeof(*h));
    struct rig *rig = &h->rig;

    assert_non_null(bin);
    assert_non_null(address);
    str_copy_cut(h->dir, sizeof(h->dir), "/tmp/sandpool-test-XXXXXX");
    assert_non_null(mkdtemp(h->dir));
    assert_int_equal(config_load(NULL, &h->config, NULL), SP_OK);
    (void) snprintf(h->config->agent.path, sizeof(h->config->agent.path), "%.200s/sandpool-agent",
                    bin);
    (void) snprintf(h->config->helper.path, sizeof(h->config->helper.path),
                    "%.200s/sandpool-helper", bin);
    rig->ops = &docker_ops;
    rig->state_dir = h->dir;
    rig->config = h->config;
    rig->profile = *config_find_profile(h->config, "default");
    str_copy_cut(rig->profile.backend, sizeof(rig->profile.backend), "docker");
    str_copy_cut(rig->profile.image, sizeof(rig->profile.image), "sandpool-test:1");
    str_copy_cut(rig->profile.docker.host, sizeof(rig->profile.docker.host), address);
    rig->profile.limits.memory = 64 * 1024 * 1024;
    rig->kill_box = kill_box;
    return h;
}

static int set_up_handed(void **state)
{
    struct rig *rig = &new_rig()->rig;

    rig->slow = rig->profile;
    rig_open(rig);
    *state = rig;
    return 0;
}

static int set_up_published(void **state)
{
    struct rig *rig = &new_rig()->rig;

    rig->profile.network = CONFIG_NETWORK_NAT;
    rig->profile.docker.inject = CONFIG_INJECT_UPLOAD;
    rig->slow = rig->profile;
    rig_open(rig);
    *state = rig;
    return 0;
}

static int remove_entry(const char *path, const struct stat *st UNUSED, int type UNUSED,
                        struct FTW *ftw UNUSED)
{
    return remove(path);
}

/* No socket of a box may be left: the directories must be empty. */
static int tear_down(void **state)
{
    struct docker_rig *h = docker_rig_of(*state);
    char dir[80];

    (void) rig_is_listed(&h->rig, 0); /* a look also removes what is dead */
    rig_close(&h->rig);
    rig_remove_groups();
    (void) snprintf(dir, sizeof(dir), "%s/docker", h->dir);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(nftw(h->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT), 0);
    h->config = config_free(h->config);
    test_free(h);
    return 0;
}

/* What a daemon that died had asked for and not started has the name of the new one. That it is removed is not the end of
 * the new one, whenever the engine reports it. */
static void test_in_place_of_an_old_one(void **state)
{
    struct rig *rig = *state;

    for (uint64_t id = 0x1234567800000001; id < 0x1234567800000004; id++) {
        struct backend_create r;
        char hex[17];
        char path[64];
        char body[512];

        str_hex64(hex, id);
        (void) snprintf(path, sizeof(path), "/containers/create?name=sandpool-%s", hex);
        (void) snprintf(
            body, sizeof(body),
            "{\"Image\": \"sandpool-test:1\", \"Cmd\": [\"true\"], \"Labels\": "
            "{\"sandpool.instance\": \"%s\", \"sandpool.box\": \"%s\", "
            "\"sandpool.profile\": \"default\", \"sandpool.url\": \"http://127.0.0.1:1\"}}",
            rig_instance(), hex);
        assert_int_equal(post(rig, path, body), 201);
        rig_start_create(rig, &r, &rig->profile, id, rig_soon(rig));
        rig_wait(rig);
        assert_int_equal(r.op.result, SP_OK);
        rig_wait_ready(rig, &r.box);
        assert_int_equal(rig_destroy(rig, rig->backend, &r.box.labels), SP_OK);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest handed[] = {
        CONFORMANCE_TESTS(set_up_handed, tear_down),
        cmocka_unit_test_setup_teardown(test_in_place_of_an_old_one, set_up_handed, tear_down)};
    const struct CMUnitTest published[] = {CONFORMANCE_TESTS(set_up_published, tear_down)};

    if (argc == 2 && strcmp(argv[1], "published") == 0)
        return cmocka_run_group_tests(published, NULL, NULL);
    return cmocka_run_group_tests(handed, NULL, NULL);
}
