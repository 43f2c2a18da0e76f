/* The `sim` backend as a client of a real sandpool-sim: the contract, and what happens when that
 * process fails, hangs, dies and comes back. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/sim.h"
#include "base/str.h"
#include "box/probe.h"
#include "tests/lib/at_most.h"
#include "tests/lib/process.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"
#include "tests/unit/backend/conformance.h"

struct host_fixture {
    struct fixture fixture;
    struct process sim;
    char dir[64];
    char socket[96];
};

static struct host_fixture *host_of(struct fixture *fixture)
{
    return container_of(fixture, struct host_fixture, fixture);
}

static void start_sim(struct host_fixture *h)
{
    const char *const argv[] = {"sandpool-sim", "--socket", h->socket, NULL};

    process_start(&h->sim, argv);
}

/* One plain request, to whoever serves at the URL; gives back the status. */
static int request(struct fixture *fixture, const char *method, const char *url,
                   const char *unix_socket, const char *header, int *ret_status)
{
    const char *const headers[] = {header, NULL};
    struct httpc_request r = {.method = method,
                              .url = url,
                              .unix_socket = unix_socket,
                              .headers = header != NULL ? headers : NULL,
                              .response_max = 65536};

    fixture->pending++;
    httpc_start(fixture->http, &r, fixture_soon(fixture), fixture_done);
    fixture_wait(fixture);
    *ret_status = r.status;
    httpc_request_fini(&r);
    return r.op.result;
}

static bool kill_box(struct fixture *fixture, uint64_t box_id)
{
    char hex[17];
    char url[64];
    int status;

    fixture->is_calling = false; /* this hook waits */
    str_hex64(hex, box_id);
    (void) snprintf(url, sizeof(url), "http://localhost/boxes/%s/kill", hex);
    return request(fixture, "POST", url, host_of(fixture)->socket, NULL, &status) == SP_OK &&
           status == 204;
}

static int set_up(void **state)
{
    struct host_fixture *h = test_calloc(1, sizeof(*h));
    struct fixture *fixture = &h->fixture;

    tmpdir_make(h->dir);
    (void) snprintf(h->socket, sizeof(h->socket), "%s/sim.sock", h->dir);
    start_sim(h);
    fixture->ops = &sim_ops;
    str_copy_cut(fixture->profile.name, sizeof(fixture->profile.name), "default");
    str_copy_cut(fixture->profile.sim.socket, sizeof(fixture->profile.sim.socket), h->socket);
    fixture->profile.sim.create_ms = 2;
    fixture->profile.sim.create_jitter_ms = 3;
    fixture->profile.sim.ready_ms = 40;
    fixture->profile.sim.destroy_ms = 1;
    fixture->slow = fixture->profile;
    fixture->slow.sim.create_ms = 100;
    fixture->kill_box = kill_box;
    fixture_open(fixture);
    assert_ptr_equal(fixture->backend->ops, &sim_host_ops);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct host_fixture *h = host_of(*state);

    fixture_close(&h->fixture);
    if (h->sim.pid > 0)
        assert_int_equal(process_stop(&h->sim, SIGTERM), 0);
    tmpdir_remove(h->dir); /* the socket is gone: it was closed in order */
    test_free(h);
    return 0;
}

/* --- a box is real HTTP --- */

static void test_box_becomes_ready(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;
    struct probe probe = {.attempts = 0};
    uint64_t start_ns;

    fixture->profile.sim.ready_ms =
        500; /* the first try comes before that on a busy machine, too */
    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    assert_false(r.box.is_ready);
    str_copy_cut(probe.url, sizeof(probe.url), r.box.url);
    start_ns = fixture_deadline(fixture, 0);
    fixture->pending++;
    probe_start(fixture->http, &fixture->loop.rt, &probe, NULL, fixture_soon(fixture),
                fixture_done);
    fixture_wait(fixture);
    assert_int_equal(probe.op.result, SP_OK);
    assert_true(probe.attempts > 1);
    assert_true(fixture_deadline(fixture, 0) - start_ns < at_most(5 * NS_PER_S));
}

static void test_token_opens_its_box(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_create other;
    char url[300];
    char header[128];
    int status;

    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    assert_int_equal(fixture_create(fixture, &other, &fixture->profile), SP_OK);
    (void) snprintf(url, sizeof(url), "%s/whoami", r.box.url);
    assert_int_equal(request(fixture, "GET", url, NULL, NULL, &status), SP_OK);
    assert_int_equal(status, 401);
    (void) snprintf(header, sizeof(header), "Authorization: Bearer %s", other.box.token);
    assert_int_equal(request(fixture, "GET", url, NULL, header, &status), SP_OK);
    assert_int_equal(status, 401);
    (void) snprintf(header, sizeof(header), "Authorization: Bearer %s", r.box.token);
    assert_int_equal(request(fixture, "GET", url, NULL, header, &status), SP_OK);
    assert_int_equal(status, 200);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
    assert_int_equal(request(fixture, "GET", url, NULL, header, &status), SP_OK);
    assert_int_equal(status, 404);
}

/* --- faults --- */

static void test_failing_machine(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;

    fixture->profile.sim.fail_percent = 100;
    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_BACKEND_FAILED);
    assert_true(strlen(r.op.err.msg) > 0);
    assert_false(fixture_is_listed(fixture, r.labels.box_id));
}

static void test_hanging_machine(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;
    struct backend_create again;

    fixture->profile.sim.hang_percent = 100;
    fixture_start_create(fixture, &r, &fixture->profile, 0, fixture_deadline(fixture, 50));
    fixture_wait(fixture);
    assert_int_equal(r.op.result, SP_TIMEOUT);
    assert_true(fixture_is_listed(fixture, r.labels.box_id)); /* the answer was lost, not the box */
    fixture_start_create(fixture, &again, &fixture->profile, r.labels.box_id,
                         fixture_soon(fixture));
    fixture_wait(fixture);
    assert_int_equal(again.op.result, SP_OK);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r.labels), SP_OK);
    assert_false(fixture_is_listed(fixture, r.labels.box_id));
}

/* The client of a create that takes long dies: the box is there all the same. */
static void test_box_outlives_its_client(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create r;

    fixture_start_create(fixture, &r, &fixture->slow, 0, fixture_soon(fixture));
    fixture_pause(fixture, 30);
    fixture_close_backend(fixture, fixture->backend);
    assert_int_equal(r.op.result, SP_CANCELLED);
    fixture->backend = fixture_open_other(fixture, fixture_instance());
    assert_true(fixture_is_listed(fixture, r.labels.box_id));
}

static void assert_unknown(struct fixture *fixture, const struct backend_create *r)
{
    struct backend_list list = {.boxes = NULL};
    struct backend_create more;
    enum backend_verdict verdict;

    assert_int_equal(fixture_check(fixture, &r->box, &verdict), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(verdict, BACKEND_UNKNOWN);
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r->labels),
                     SP_BACKEND_UNAVAILABLE);
    fixture->pending++;
    fixture->backend->ops->list(fixture->backend, &list, fixture_soon(fixture), fixture_done);
    fixture_wait(fixture);
    assert_int_equal(list.op.result, SP_BACKEND_UNAVAILABLE);
    assert_int_equal(list.count, 0);
    assert_int_equal(fixture_create(fixture, &more, &fixture->profile), SP_BACKEND_UNAVAILABLE);
    backend_list_fini(&list);
}

static void test_sim_killed_and_restarted(void **state)
{
    struct fixture *fixture = *state;
    struct host_fixture *h = host_of(fixture);
    struct backend_create r;
    struct backend_create slow;
    enum backend_verdict verdict;

    assert_int_equal(fixture_create(fixture, &r, &fixture->profile), SP_OK);
    fixture->slow.sim.create_ms = 5000;
    fixture_start_create(fixture, &slow, &fixture->slow, 0, fixture_soon(fixture));
    fixture_pause(fixture, 20);
    assert_int_equal(process_stop(&h->sim, SIGKILL), -SIGKILL);
    fixture_wait(fixture);
    assert_int_equal(slow.op.result, SP_BACKEND_UNAVAILABLE);
    assert_unknown(fixture, &r);
    assert_int_equal(fixture->resyncs, 0);

    start_sim(h); /* on the socket that the killed one left behind */
    for (int i = 0; i < 100 && fixture->resyncs == 0; i++)
        fixture_pause(fixture, 100);
    assert_int_equal(fixture->resyncs, 1);
    assert_int_equal(fixture_check(fixture, &r.box, &verdict), SP_OK);
    assert_int_equal(verdict, BACKEND_DEAD); /* the machine was switched off: its boxes are gone */
    assert_false(fixture_is_listed(fixture, r.labels.box_id));
    conformance_death_is_reported(state); /* the watch works again */
}

static void test_second_sim_is_refused(void **state)
{
    struct host_fixture *h = host_of(*state);
    const char *const argv[] = {"sandpool-sim", "--socket", h->socket, NULL};
    struct process second;
    struct backend_create r;

    process_spawn(&second, argv);
    assert_int_equal(process_stop(&second, 0), 1);
    assert_int_equal(fixture_create(&h->fixture, &r, &h->fixture.profile), SP_OK);
}

static void test_long_socket_path_is_refused(void **state)
{
    struct fixture *fixture = *state;
    const struct backend_env env = {.loop = &fixture->loop,
                                    .http = fixture->http,
                                    .instance = fixture_instance(),
                                    .state_dir = "/nonexistent",
                                    .events = &fixture->events};
    struct config_profile profile = fixture->profile;
    struct backend *b = NULL;
    struct err err;

    memset(profile.sim.socket, 'x', 200);
    profile.sim.socket[200] = '\0';
    assert_int_equal(sim_ops.open(&env, &profile, &b, &err), SP_CONFIG);
    assert_null(b);
}

/* --- many --- */

enum { BOXES = 2500, AT_ONCE = 32 };

static double in_batches(struct fixture *fixture, struct backend_create *made, bool want_create)
{
    static struct backend_destroy gone[AT_ONCE];
    uint64_t start_ns = fixture_deadline(fixture, 0);

    for (size_t from = 0; from < BOXES; from += AT_ONCE) {
        size_t count = MIN_OF((size_t) AT_ONCE, BOXES - from);

        for (size_t i = 0; i < count; i++)
            if (want_create)
                fixture_start_create(fixture, &made[from + i], &fixture->profile, 0,
                                     fixture_soon(fixture));
            else
                fixture_start_destroy(fixture, &gone[i], &made[from + i].box,
                                      fixture_soon(fixture));
        fixture_wait(fixture);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(want_create ? made[from + i].op.result : gone[i].op.result, SP_OK);
    }
    return (double) BOXES * (double) NS_PER_S / (double) (fixture_deadline(fixture, 0) - start_ns);
}

static void test_pages(void **state)
{
    struct fixture *fixture = *state;
    struct backend_create *made = test_calloc(BOXES, sizeof(*made));
    double create_rate;
    double destroy_rate;
    bool is_listed;

    memset(fixture->profile.name, 'p', 64); /* long labels make long pages */
    fixture->profile.sim.create_ms = 0;
    fixture->profile.sim.create_jitter_ms = 0;
    fixture->profile.sim.destroy_ms = 0;
    create_rate = in_batches(fixture, made, true);
    for (size_t i = 0; i < BOXES; i += 500) {
        assert_int_equal(
            fixture_list(fixture, fixture->backend, made[i].labels.box_id, NULL, &is_listed),
            BOXES);
        assert_true(is_listed);
    }
    destroy_rate = in_batches(fixture, made, false);
    print_message("%.0f creates/s, %.0f destroys/s, %d at a time\n", create_rate, destroy_rate,
                  (int) AT_ONCE);
    assert_int_equal(fixture_list(fixture, fixture->backend, 0, NULL, &is_listed), 0);
    test_free(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONFORMANCE_TESTS(set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_box_becomes_ready, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_token_opens_its_box, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failing_machine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hanging_machine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_box_outlives_its_client, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sim_killed_and_restarted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_second_sim_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_socket_path_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pages, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
