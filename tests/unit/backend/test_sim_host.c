/* The `sim` backend as a client of a real sandpool-sim: the contract, and what happens when that
 * process fails, hangs, dies and comes back. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/sim/sim.h"
#include "base/str.h"
#include "box/probe.h"
#include "tests/lib/at_most.h"
#include "tests/unit/backend/conformance.h"
#include "tests/unit/sim/program.h"

struct host_rig {
    struct rig rig;
    struct program sim;
    char dir[64];
    char socket[96];
};

static struct host_rig *host_of(struct rig *rig)
{
    return container_of(rig, struct host_rig, rig);
}

static void start_sim(struct host_rig *h)
{
    const char *const argv[] = {"sandpool-sim", "--socket", h->socket, NULL};

    program_start(&h->sim, argv);
}

/* One plain request, to whoever serves at the URL; gives back the status. */
static int request(struct rig *rig, const char *method, const char *url, const char *unix_socket,
                   const char *header, int *ret_status)
{
    const char *const headers[] = {header, NULL};
    struct httpc_request r = {.method = method,
                              .url = url,
                              .unix_socket = unix_socket,
                              .headers = header != NULL ? headers : NULL,
                              .response_max = 65536};

    rig->pending++;
    httpc_start(rig->http, &r, rig_soon(rig), rig_done);
    rig_wait(rig);
    *ret_status = r.status;
    httpc_request_fini(&r);
    return r.op.result;
}

static bool kill_box(struct rig *rig, uint64_t box_id)
{
    char hex[17];
    char url[64];
    int status;

    rig->is_calling = false; /* this hook waits */
    str_hex64(hex, box_id);
    (void) snprintf(url, sizeof(url), "http://localhost/boxes/%s/kill", hex);
    return request(rig, "POST", url, host_of(rig)->socket, NULL, &status) == SP_OK && status == 204;
}

static int set_up(void **state)
{
    struct host_rig *h = test_calloc(1, sizeof(*h));
    struct rig *rig = &h->rig;

    program_make_dir(h->dir);
    (void) snprintf(h->socket, sizeof(h->socket), "%s/sim.sock", h->dir);
    start_sim(h);
    rig->ops = &sim_ops;
    str_copy_cut(rig->profile.name, sizeof(rig->profile.name), "default");
    str_copy_cut(rig->profile.sim.socket, sizeof(rig->profile.sim.socket), h->socket);
    rig->profile.sim.create_ms = 2;
    rig->profile.sim.create_jitter_ms = 3;
    rig->profile.sim.ready_ms = 40;
    rig->profile.sim.destroy_ms = 1;
    rig->slow = rig->profile;
    rig->slow.sim.create_ms = 100;
    rig->kill_box = kill_box;
    rig_open(rig);
    assert_ptr_equal(rig->backend->ops, &sim_host_ops);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct host_rig *h = host_of(*state);

    rig_close(&h->rig);
    if (h->sim.pid > 0)
        assert_int_equal(program_stop(&h->sim, SIGTERM), 0);
    program_remove_dir(h->dir); /* the socket is gone: it was closed in order */
    test_free(h);
    return 0;
}

/* --- a box is real HTTP --- */

static void test_box_becomes_ready(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;
    struct probe probe = {.attempts = 0};
    uint64_t start_ns;

    rig->profile.sim.ready_ms = 500; /* the first try comes before that on a busy machine, too */
    assert_int_equal(rig_create(rig, &r, &rig->profile), SP_OK);
    assert_false(r.box.is_ready);
    str_copy_cut(probe.url, sizeof(probe.url), r.box.url);
    start_ns = rig_deadline(rig, 0);
    rig->pending++;
    probe_start(rig->http, &rig->loop.rt, &probe, NULL, rig_soon(rig), rig_done);
    rig_wait(rig);
    assert_int_equal(probe.op.result, SP_OK);
    assert_true(probe.attempts > 1);
    assert_true(rig_deadline(rig, 0) - start_ns < at_most(5 * NS_PER_S));
}

static void test_token_opens_its_box(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_create other;
    char url[300];
    char header[128];
    int status;

    assert_int_equal(rig_create(rig, &r, &rig->profile), SP_OK);
    assert_int_equal(rig_create(rig, &other, &rig->profile), SP_OK);
    (void) snprintf(url, sizeof(url), "%s/whoami", r.box.url);
    assert_int_equal(request(rig, "GET", url, NULL, NULL, &status), SP_OK);
    assert_int_equal(status, 401);
    (void) snprintf(header, sizeof(header), "Authorization: Bearer %s", other.box.token);
    assert_int_equal(request(rig, "GET", url, NULL, header, &status), SP_OK);
    assert_int_equal(status, 401);
    (void) snprintf(header, sizeof(header), "Authorization: Bearer %s", r.box.token);
    assert_int_equal(request(rig, "GET", url, NULL, header, &status), SP_OK);
    assert_int_equal(status, 200);
    assert_int_equal(rig_destroy(rig, rig->backend, &r.labels), SP_OK);
    assert_int_equal(request(rig, "GET", url, NULL, header, &status), SP_OK);
    assert_int_equal(status, 404);
}

/* --- faults --- */

static void test_failing_machine(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;

    rig->profile.sim.fail_percent = 100;
    assert_int_equal(rig_create(rig, &r, &rig->profile), SP_BACKEND_FAILED);
    assert_true(strlen(r.op.err.msg) > 0);
    assert_false(rig_is_listed(rig, r.labels.box_id));
}

static void test_hanging_machine(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;
    struct backend_create again;

    rig->profile.sim.hang_percent = 100;
    rig_start_create(rig, &r, &rig->profile, 0, rig_deadline(rig, 50));
    rig_wait(rig);
    assert_int_equal(r.op.result, SP_TIMEOUT);
    assert_true(rig_is_listed(rig, r.labels.box_id)); /* the answer was lost, not the box */
    rig_start_create(rig, &again, &rig->profile, r.labels.box_id, rig_soon(rig));
    rig_wait(rig);
    assert_int_equal(again.op.result, SP_OK);
    assert_int_equal(rig_destroy(rig, rig->backend, &r.labels), SP_OK);
    assert_false(rig_is_listed(rig, r.labels.box_id));
}

/* The client of a create that takes long dies: the box is there all the same. */
static void test_box_outlives_its_client(void **state)
{
    struct rig *rig = *state;
    struct backend_create r;

    rig_start_create(rig, &r, &rig->slow, 0, rig_soon(rig));
    rig_pause(rig, 30);
    rig_close_backend(rig, rig->backend);
    assert_int_equal(r.op.result, SP_CANCELLED);
    rig->backend = rig_open_other(rig, rig_instance());
    assert_true(rig_is_listed(rig, r.labels.box_id));
}

static void assert_unknown(struct rig *rig, const struct backend_create *r)
{
    struct backend_list list = {.boxes = NULL};
    struct backend_create more;
    enum backend_verdict verdict;

    assert_int_equal(rig_check(rig, &r->box, &verdict), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(verdict, BACKEND_UNKNOWN);
    assert_int_equal(rig_destroy(rig, rig->backend, &r->labels), SP_BACKEND_UNAVAILABLE);
    rig->pending++;
    rig->backend->ops->list(rig->backend, &list, rig_soon(rig), rig_done);
    rig_wait(rig);
    assert_int_equal(list.op.result, SP_BACKEND_UNAVAILABLE);
    assert_int_equal(list.count, 0);
    assert_int_equal(rig_create(rig, &more, &rig->profile), SP_BACKEND_UNAVAILABLE);
    backend_list_fini(&list);
}

static void test_sim_killed_and_restarted(void **state)
{
    struct rig *rig = *state;
    struct host_rig *h = host_of(rig);
    struct backend_create r;
    struct backend_create slow;
    enum backend_verdict verdict;

    assert_int_equal(rig_create(rig, &r, &rig->profile), SP_OK);
    rig->slow.sim.create_ms = 5000;
    rig_start_create(rig, &slow, &rig->slow, 0, rig_soon(rig));
    rig_pause(rig, 20);
    assert_int_equal(program_stop(&h->sim, SIGKILL), -SIGKILL);
    rig_wait(rig);
    assert_int_equal(slow.op.result, SP_BACKEND_UNAVAILABLE);
    assert_unknown(rig, &r);
    assert_int_equal(rig->resyncs, 0);

    start_sim(h); /* on the socket that the killed one left behind */
    for (int i = 0; i < 100 && rig->resyncs == 0; i++)
        rig_pause(rig, 100);
    assert_int_equal(rig->resyncs, 1);
    assert_int_equal(rig_check(rig, &r.box, &verdict), SP_OK);
    assert_int_equal(verdict, BACKEND_DEAD); /* the machine was switched off: its boxes are gone */
    assert_false(rig_is_listed(rig, r.labels.box_id));
    conformance_death_is_reported(state); /* the watch works again */
}

static void test_second_sim_is_refused(void **state)
{
    struct host_rig *h = host_of(*state);
    const char *const argv[] = {"sandpool-sim", "--socket", h->socket, NULL};
    struct program second;
    struct backend_create r;

    program_spawn(&second, argv);
    assert_int_equal(program_stop(&second, 0), 1);
    assert_int_equal(rig_create(&h->rig, &r, &h->rig.profile), SP_OK);
}

static void test_long_socket_path_is_refused(void **state)
{
    struct rig *rig = *state;
    const struct backend_env env = {.loop = &rig->loop,
                                    .http = rig->http,
                                    .instance = rig_instance(),
                                    .state_dir = "/nonexistent",
                                    .events = &rig->events};
    struct config_profile profile = rig->profile;
    struct backend *b = NULL;
    struct err err;

    memset(profile.sim.socket, 'x', 200);
    profile.sim.socket[200] = '\0';
    assert_int_equal(sim_ops.open(&env, &profile, &b, &err), SP_CONFIG);
    assert_null(b);
}

/* --- many --- */

enum { BOXES = 2500, AT_ONCE = 32 };

static double in_batches(struct rig *rig, struct backend_create *made, bool want_create)
{
    static struct backend_destroy gone[AT_ONCE];
    uint64_t start_ns = rig_deadline(rig, 0);

    for (size_t from = 0; from < BOXES; from += AT_ONCE) {
        size_t count = MIN_OF((size_t) AT_ONCE, BOXES - from);

        for (size_t i = 0; i < count; i++)
            if (want_create)
                rig_start_create(rig, &made[from + i], &rig->profile, 0, rig_soon(rig));
            else
                rig_start_destroy(rig, &gone[i], &made[from + i].box, rig_soon(rig));
        rig_wait(rig);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(want_create ? made[from + i].op.result : gone[i].op.result, SP_OK);
    }
    return (double) BOXES * (double) NS_PER_S / (double) (rig_deadline(rig, 0) - start_ns);
}

static void test_pages(void **state)
{
    struct rig *rig = *state;
    struct backend_create *made = test_calloc(BOXES, sizeof(*made));
    double create_rate;
    double destroy_rate;
    bool is_listed;

    memset(rig->profile.name, 'p', 64); /* long labels make long pages */
    rig->profile.sim.create_ms = 0;
    rig->profile.sim.create_jitter_ms = 0;
    rig->profile.sim.destroy_ms = 0;
    create_rate = in_batches(rig, made, true);
    for (size_t i = 0; i < BOXES; i += 500) {
        assert_int_equal(rig_list(rig, rig->backend, made[i].labels.box_id, NULL, &is_listed),
                         BOXES);
        assert_true(is_listed);
    }
    destroy_rate = in_batches(rig, made, false);
    print_message("%.0f creates/s, %.0f destroys/s, %d at a time\n", create_rate, destroy_rate,
                  (int) AT_ONCE);
    assert_int_equal(rig_list(rig, rig->backend, 0, NULL, &is_listed), 0);
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
