/* The `docker` backend with real containers: the contract, on a Docker engine that engine.py starts for
 * it; engine.py also asks the engine what is left. Once for boxes whose socket is handed over, once
 * for published ports and an uploaded agent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker/docker.h"
#include "base/str.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"
#include "tests/unit/backend/conformance.h"

struct docker_fixture {
    struct fixture fixture;
    struct config *config;
    char dir[64];
};

static struct docker_fixture *docker_fixture_of(struct fixture *fixture)
{
    return container_of(fixture, struct docker_fixture, fixture);
}

/* As a person would: not through the backend. The status of the answer; 0: there was none. */
static int post(struct fixture *fixture, const char *path, const char *body)
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
    fixture->is_calling = false;
    fixture->pending++;
    httpc_start(fixture->http, &r, fixture_soon(fixture), fixture_done);
    fixture_wait(fixture);
    httpc_request_fini(&r);
    return r.op.result == SP_OK ? r.status : 0;
}

static bool kill_box(struct fixture *fixture, uint64_t box_id)
{
    char path[64];
    char hex[17];

    str_hex64(hex, box_id);
    (void) snprintf(path, sizeof(path), "/containers/sandpool-%s/kill", hex);
    return post(fixture, path, "") == 204;
}

static struct docker_fixture *new_fixture(void)
{
    const char *bin = getenv("SANDPOOL_BIN_DIR");
    const char *address = getenv("SANDPOOL_TEST_DOCKER");
    struct docker_fixture *h = test_calloc(1, sizeof(*h));
    struct fixture *fixture = &h->fixture;

    assert_non_null(bin);
    assert_non_null(address);
    tmpdir_make(h->dir);
    assert_int_equal(config_load(NULL, &h->config, NULL), SP_OK);
    (void) snprintf(h->config->agent.path, sizeof(h->config->agent.path), "%.200s/sandpool-agent",
                    bin);
    (void) snprintf(h->config->helper.path, sizeof(h->config->helper.path),
                    "%.200s/sandpool-helper", bin);
    fixture->ops = &docker_ops;
    fixture->state_dir = h->dir;
    fixture->config = h->config;
    fixture->profile = *config_find_profile(h->config, "default");
    str_copy_cut(fixture->profile.backend, sizeof(fixture->profile.backend), "docker");
    str_copy_cut(fixture->profile.image, sizeof(fixture->profile.image), "sandpool-test:1");
    str_copy_cut(fixture->profile.docker.host, sizeof(fixture->profile.docker.host), address);
    fixture->profile.limits.memory = 64 * 1024 * 1024;
    fixture->kill_box = kill_box;
    return h;
}

static int set_up_handed(void **state)
{
    struct fixture *fixture = &new_fixture()->fixture;

    fixture->slow = fixture->profile;
    fixture_open(fixture);
    *state = fixture;
    return 0;
}

static int set_up_published(void **state)
{
    struct fixture *fixture = &new_fixture()->fixture;

    fixture->profile.network.mode = CONFIG_NETWORK_NAT;
    fixture->profile.docker.inject = CONFIG_INJECT_UPLOAD;
    fixture->slow = fixture->profile;
    fixture_open(fixture);
    *state = fixture;
    return 0;
}

/* No socket of a box may be left: the directories must be empty. */
static int tear_down(void **state)
{
    struct docker_fixture *h = docker_fixture_of(*state);
    char dir[80];

    (void) fixture_is_listed(&h->fixture, 0); /* a look also removes what is dead */
    fixture_close(&h->fixture);
    fixture_remove_groups();
    (void) snprintf(dir, sizeof(dir), "%s/docker", h->dir);
    assert_int_equal(rmdir(dir), 0);
    tmpdir_remove(h->dir);
    h->config = config_free(h->config);
    test_free(h);
    return 0;
}

/* What a daemon that died had asked for and not started has the name of the new one. That it is removed is not the end of
 * the new one, whenever the engine reports it. */
static void test_in_place_of_an_old_one(void **state)
{
    struct fixture *fixture = *state;

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
            fixture_instance(), hex);
        assert_int_equal(post(fixture, path, body), 201);
        fixture_start_create(fixture, &r, &fixture->profile, id, fixture_soon(fixture));
        fixture_wait(fixture);
        assert_int_equal(r.op.result, SP_OK);
        fixture_wait_ready(fixture, &r.box);
        assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.box.labels), SP_OK);
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
