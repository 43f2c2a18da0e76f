/* fixture.c - the bench on which a backend is tested. */
#include "tests/unit/backend/fixture.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rand.h"
#include "base/str.h"
#include "box/probe.h"
#include "tests/lib/unit.h"

#define LIMIT_NS (120 * NS_PER_S)

static const struct httpc_limits http_limits = {
    .connections = 64, .connections_per_host = 64, .connect_timeout_ms = 5000};

static void on_limit(struct rt_timer *timer)
{
    (void) timer;
    fail_msg("the test hangs");
}

static void run(struct fixture *fixture)
{
    rt_refresh(&fixture->loop.rt);
    rt_timer_set(&fixture->loop.rt, &fixture->limit, rt_after(rt_now(&fixture->loop.rt), LIMIT_NS),
                 on_limit);
    loop_run(&fixture->loop);
    rt_timer_cancel(&fixture->loop.rt, &fixture->limit);
}

static void on_died(void *ctx, uint64_t box_id, const char *reason)
{
    struct fixture *fixture = ctx;

    assert_false(fixture->is_calling);
    assert_non_null(reason);
    assert_true(fixture->death_count < FIXTURE_DEATHS);
    fixture->deaths[fixture->death_count++] = box_id;
    if (fixture->is_paused)
        loop_stop(&fixture->loop);
}

static void on_resync(void *ctx)
{
    struct fixture *fixture = ctx;

    assert_false(fixture->is_calling);
    fixture->resyncs++;
    if (fixture->is_paused)
        loop_stop(&fixture->loop);
}

static struct backend *open_backend(struct fixture *fixture, const char *instance)
{
    const struct backend_env env = {.loop = &fixture->loop,
                                    .http = fixture->http,
                                    .instance = instance,
                                    .state_dir = fixture->state_dir != NULL ? fixture->state_dir
                                                                            : "/nonexistent",
                                    .config = fixture->config,
                                    .events = &fixture->events};
    struct backend *b = NULL;
    struct err err;
    int rc;

    fixture->is_calling = true;
    rc = fixture->ops->open(&env, &fixture->profile, &b, &err);
    fixture->is_calling = false;
    if (rc != SP_OK)
        fail_msg("open: %s", err.msg);
    assert_non_null(b);
    fixture->open_backends++;
    return b;
}

const char *fixture_instance(void)
{
    static char name[24];
    uint64_t number;

    if (name[0] == '\0') {
        rand_secure(&number, sizeof(number));
        (void) snprintf(name, sizeof(name), "test-%016llx", (unsigned long long) number);
    }
    return name;
}

/* One for each hierarchy of version 1, and the only one of version 2. */
static size_t remove_groups_once(void)
{
    char pattern[128];
    size_t left = 0;
    glob_t found;

    for (int i = 0; i < 4; i++) { /* what is inside goes first */
        (void) snprintf(pattern, sizeof(pattern), "/sys/fs/cgroup%s/sandpool-%s%s",
                        i % 2 != 0 ? "/*" : "", fixture_instance(), i < 2 ? "/*/" : "");
        if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
            continue; /* there is none */
        for (size_t k = 0; k < found.gl_pathc; k++)
            left += rmdir(found.gl_pathv[k]) != 0;
        globfree(&found);
    }
    return left;
}

void fixture_remove_groups(void)
{
    for (int i = 0; remove_groups_once() > 0; i++) {
        assert_true(i < 1000); /* a process of a box ends */
        (void) usleep(20 * 1000);
    }
}

void fixture_open(struct fixture *fixture)
{
    fixture->events =
        (struct backend_events){.ctx = fixture, .on_died = on_died, .on_resync = on_resync};
    assert_int_equal(loop_init(&fixture->loop, NULL), SP_OK);
    assert_int_equal(httpc_new(&fixture->loop, &http_limits, &fixture->http, NULL), SP_OK);
    fixture->backend = open_backend(fixture, fixture_instance());
}

struct backend *fixture_open_other(struct fixture *fixture, const char *instance)
{
    return open_backend(fixture, instance);
}

static void on_closed(void *ctx)
{
    struct fixture *fixture = ctx;

    assert_false(fixture->is_calling);
    assert_int_equal(fixture->pending, 0); /* every on_done() came before */
    fixture->is_closed = true;
    loop_stop(&fixture->loop);
}

void fixture_close_backend(struct fixture *fixture, struct backend *b)
{
    fixture->is_closed = false;
    fixture->is_calling = true;
    b->ops->close(b, on_closed, fixture);
    fixture->is_calling = false;
    fixture->open_backends--;
    if (b == fixture->backend)
        fixture->backend = NULL;
    while (!fixture->is_closed)
        run(fixture);
}

void fixture_close(struct fixture *fixture)
{
    if (fixture->backend != NULL)
        fixture_close_backend(fixture, fixture->backend);
    assert_int_equal(fixture->open_backends, 0);
    fixture->is_closed = false;
    httpc_close(fixture->http, on_closed, fixture);
    while (!fixture->is_closed)
        run(fixture);
    loop_fini(&fixture->loop);
}

/* --- waiting --- */

void fixture_done(struct op *op)
{
    struct fixture *fixture =
        container_of(container_of(op->rt, struct loop, rt), struct fixture, loop);

    assert_false(fixture->is_calling);
    assert_true(fixture->pending > 0);
    if (--fixture->pending == 0)
        loop_stop(&fixture->loop);
}

void fixture_wait(struct fixture *fixture)
{
    while (fixture->pending > 0)
        run(fixture);
}

static void on_pause(struct rt_timer *timer)
{
    struct fixture *fixture = container_of(timer, struct fixture, pause);

    fixture->is_paused = false;
    loop_stop(&fixture->loop);
}

static void start_pause(struct fixture *fixture, uint64_t ms)
{
    fixture->is_paused = true;
    rt_timer_set(&fixture->loop.rt, &fixture->pause, fixture_deadline(fixture, ms), on_pause);
}

void fixture_pause(struct fixture *fixture, uint64_t ms)
{
    start_pause(fixture, ms);
    while (fixture->is_paused)
        run(fixture);
}

static bool has_died(const struct fixture *fixture, uint64_t box_id)
{
    for (size_t i = 0; i < fixture->death_count; i++)
        if (fixture->deaths[i] == box_id)
            return true;
    return false;
}

bool fixture_wait_death(struct fixture *fixture, uint64_t box_id, uint64_t ms)
{
    start_pause(fixture, ms);
    while (fixture->is_paused && !has_died(fixture, box_id))
        run(fixture);
    fixture->is_paused = false;
    rt_timer_cancel(&fixture->loop.rt, &fixture->pause);
    return has_died(fixture, box_id);
}

uint64_t fixture_deadline(struct fixture *fixture, uint64_t ms)
{
    rt_refresh(&fixture->loop.rt);
    return rt_after(rt_now(&fixture->loop.rt), ms * NS_PER_MS);
}

uint64_t fixture_soon(struct fixture *fixture)
{
    return fixture_deadline(fixture, 30000);
}

/* --- calls --- */

static void begin_call(struct fixture *fixture)
{
    fixture->pending++;
    fixture->is_calling = true;
}

static void end_call(struct fixture *fixture)
{
    fixture->is_calling = false;
}

void fixture_start_create(struct fixture *fixture, struct backend_create *r,
                          const struct config_profile *profile, uint64_t id, uint64_t deadline_ns)
{
    memset(r, 0, sizeof(*r));
    if (id == 0)
        rand_secure(&id, sizeof(id));
    r->profile = profile;
    r->labels.box_id = id;
    r->labels.spec_hash = 0xfedcba9876543210ULL;
    str_copy_cut(r->labels.instance, sizeof(r->labels.instance), fixture_instance());
    str_copy_cut(r->labels.profile, sizeof(r->labels.profile), profile->name);
    (void) snprintf(r->token, sizeof(r->token), "token-%016llx", (unsigned long long) id);
    begin_call(fixture);
    fixture->backend->ops->create(fixture->backend, r, deadline_ns, fixture_done);
    end_call(fixture);
}

void fixture_start_destroy(struct fixture *fixture, struct backend_destroy *r,
                           const struct backend_box *box, uint64_t deadline_ns)
{
    memset(r, 0, sizeof(*r));
    r->profile = &fixture->profile;
    r->box = *box;
    begin_call(fixture);
    fixture->backend->ops->destroy(fixture->backend, r, deadline_ns, fixture_done);
    end_call(fixture);
}

void fixture_start_update(struct fixture *fixture, struct backend_update *r,
                          const struct backend_box *box, const struct backend_extras *extras,
                          uint64_t deadline_ns)
{
    memset(r, 0, sizeof(*r));
    r->profile = &fixture->profile;
    r->box = *box;
    r->extras = *extras;
    begin_call(fixture);
    fixture->backend->ops->update(fixture->backend, r, deadline_ns, fixture_done);
    end_call(fixture);
}

void fixture_cancel(struct fixture *fixture, struct op *op)
{
    fixture->is_calling = true;
    op_cancel(op);
    op_cancel(op); /* asking twice changes nothing */
    fixture->is_calling = false;
}

int fixture_create(struct fixture *fixture, struct backend_create *r,
                   const struct config_profile *profile)
{
    fixture_start_create(fixture, r, profile, 0, fixture_soon(fixture));
    fixture_wait(fixture);
    if (r->op.result != SP_OK)
        print_message("create: %s\n", r->op.err.msg);
    return r->op.result;
}

void fixture_wait_ready(struct fixture *fixture, const struct backend_box *box)
{
    struct probe p = {.attempts = 0};

    if (box->is_ready)
        return;
    assert_true(str_copy(p.url, sizeof(p.url), box->url));
    assert_true(str_copy(p.token, sizeof(p.token), box->token));
    begin_call(fixture);
    probe_start(fixture->http, &fixture->loop.rt, &p, NULL, fixture_soon(fixture), fixture_done);
    end_call(fixture);
    fixture_wait(fixture);
    if (p.op.result != SP_OK)
        fail_msg("%s", p.op.err.msg);
}

int fixture_destroy(struct fixture *fixture, struct backend *b, const struct backend_labels *labels)
{
    struct backend_destroy r = {.profile = NULL};

    r.box.labels = *labels; /* no ref: what is known when a create was cut short */
    begin_call(fixture);
    b->ops->destroy(b, &r, fixture_soon(fixture), fixture_done);
    end_call(fixture);
    fixture_wait(fixture);
    if (r.op.result == SP_OK)
        assert_true(strlen(r.released.text) > 0);
    return r.op.result;
}

int fixture_check(struct fixture *fixture, const struct backend_box *box, enum backend_verdict *ret)
{
    struct backend_check r = {.box = *box};

    begin_call(fixture);
    fixture->backend->ops->is_alive(fixture->backend, &r, fixture_soon(fixture), fixture_done);
    end_call(fixture);
    fixture_wait(fixture);
    *ret = r.op.result == SP_OK ? r.verdict : BACKEND_UNKNOWN;
    return r.op.result;
}

size_t fixture_list(struct fixture *fixture, struct backend *b, uint64_t id,
                    struct backend_box *ret_box, bool *ret_is_listed)
{
    struct backend_list r = {.boxes = NULL};
    size_t count;

    begin_call(fixture);
    b->ops->list(b, &r, fixture_soon(fixture), fixture_done);
    end_call(fixture);
    fixture_wait(fixture);
    assert_int_equal(r.op.result, SP_OK);
    *ret_is_listed = false;
    for (size_t i = 0; i < r.count; i++) {
        if (r.boxes[i].labels.box_id != id)
            continue;
        assert_false(*ret_is_listed); /* once */
        *ret_is_listed = true;
        if (ret_box != NULL)
            *ret_box = r.boxes[i];
    }
    count = r.count;
    backend_list_fini(&r);
    return count;
}

bool fixture_is_listed(struct fixture *fixture, uint64_t id)
{
    bool is_listed;

    (void) fixture_list(fixture, fixture->backend, id, NULL, &is_listed);
    return is_listed;
}

bool fixture_discover(struct fixture *fixture, const char *sandbox_id, struct backend_box *ret_box)
{
    struct backend_discover r = {.is_found = false};

    str_copy_cut(r.sandbox_id, sizeof(r.sandbox_id), sandbox_id);
    begin_call(fixture);
    fixture->backend->ops->discover(fixture->backend, &r, fixture_soon(fixture), fixture_done);
    end_call(fixture);
    fixture_wait(fixture);
    assert_int_equal(r.op.result, SP_OK);
    *ret_box = r.box;
    return r.is_found;
}

int fixture_bind(struct fixture *fixture, const struct backend_box *box)
{
    struct backend_bind r = {.box = *box};

    begin_call(fixture);
    fixture->backend->ops->bind(fixture->backend, &r, fixture_soon(fixture), fixture_done);
    end_call(fixture);
    fixture_wait(fixture);
    return r.op.result;
}
