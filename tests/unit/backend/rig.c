/* rig.c - the bench on which a backend is tested. */
#include "tests/unit/backend/rig.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rand.h"
#include "base/str.h"
#include "box/probe.h"

#define LIMIT_NS (120 * NS_PER_S)

static const struct httpc_limits http_limits = {
    .connections = 64, .connections_per_host = 64, .connect_timeout_ms = 5000};

static void on_limit(struct rt_timer *timer)
{
    (void) timer;
    fail_msg("the test hangs");
}

static void run(struct rig *rig)
{
    rt_refresh(&rig->loop.rt);
    rt_timer_set(&rig->loop.rt, &rig->limit, rt_after(rt_now(&rig->loop.rt), LIMIT_NS), on_limit);
    loop_run(&rig->loop);
    rt_timer_cancel(&rig->loop.rt, &rig->limit);
}

static void on_died(void *ctx, uint64_t box_id, const char *reason)
{
    struct rig *rig = ctx;

    assert_false(rig->is_calling);
    assert_non_null(reason);
    assert_true(rig->death_count < RIG_DEATHS);
    rig->deaths[rig->death_count++] = box_id;
    if (rig->is_paused)
        loop_stop(&rig->loop);
}

static void on_resync(void *ctx)
{
    struct rig *rig = ctx;

    assert_false(rig->is_calling);
    rig->resyncs++;
    if (rig->is_paused)
        loop_stop(&rig->loop);
}

static struct backend *open_backend(struct rig *rig, const char *instance)
{
    const struct backend_env env = {.loop = &rig->loop,
                                    .http = rig->http,
                                    .instance = instance,
                                    .state_dir =
                                        rig->state_dir != NULL ? rig->state_dir : "/nonexistent",
                                    .config = rig->config,
                                    .events = &rig->events};
    struct backend *b = NULL;
    struct err err;
    int rc;

    rig->is_calling = true;
    rc = rig->ops->open(&env, &rig->profile, &b, &err);
    rig->is_calling = false;
    if (rc != SP_OK)
        fail_msg("open: %s", err.msg);
    assert_non_null(b);
    rig->open_backends++;
    return b;
}

const char *rig_instance(void)
{
    static char name[24];
    uint64_t number;

    if (name[0] == '\0') {
        rand_secure(&number, sizeof(number));
        (void) snprintf(name, sizeof(name), "rig-%016llx", (unsigned long long) number);
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
                        i % 2 != 0 ? "/*" : "", rig_instance(), i < 2 ? "/*/" : "");
        if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
            continue; /* there is none */
        for (size_t k = 0; k < found.gl_pathc; k++)
            left += rmdir(found.gl_pathv[k]) != 0;
        globfree(&found);
    }
    return left;
}

void rig_remove_groups(void)
{
    for (int i = 0; remove_groups_once() > 0; i++) {
        assert_true(i < 1000); /* a process of a box ends */
        (void) usleep(20 * 1000);
    }
}

void rig_open(struct rig *rig)
{
    rig->events = (struct backend_events){.ctx = rig, .on_died = on_died, .on_resync = on_resync};
    assert_int_equal(loop_init(&rig->loop, NULL), SP_OK);
    assert_int_equal(httpc_new(&rig->loop, &http_limits, &rig->http, NULL), SP_OK);
    rig->backend = open_backend(rig, rig_instance());
}

struct backend *rig_open_other(struct rig *rig, const char *instance)
{
    return open_backend(rig, instance);
}

static void on_closed(void *ctx)
{
    struct rig *rig = ctx;

    assert_false(rig->is_calling);
    assert_int_equal(rig->pending, 0); /* every on_done() came before */
    rig->is_closed = true;
    loop_stop(&rig->loop);
}

void rig_close_backend(struct rig *rig, struct backend *b)
{
    rig->is_closed = false;
    rig->is_calling = true;
    b->ops->close(b, on_closed, rig);
    rig->is_calling = false;
    rig->open_backends--;
    if (b == rig->backend)
        rig->backend = NULL;
    while (!rig->is_closed)
        run(rig);
}

void rig_close(struct rig *rig)
{
    if (rig->backend != NULL)
        rig_close_backend(rig, rig->backend);
    assert_int_equal(rig->open_backends, 0);
    rig->is_closed = false;
    httpc_close(rig->http, on_closed, rig);
    while (!rig->is_closed)
        run(rig);
    loop_fini(&rig->loop);
}

/* --- waiting --- */

void rig_done(struct op *op)
{
    struct rig *rig = container_of(container_of(op->rt, struct loop, rt), struct rig, loop);

    assert_false(rig->is_calling);
    assert_true(rig->pending > 0);
    if (--rig->pending == 0)
        loop_stop(&rig->loop);
}

void rig_wait(struct rig *rig)
{
    while (rig->pending > 0)
        run(rig);
}

static void on_pause(struct rt_timer *timer)
{
    struct rig *rig = container_of(timer, struct rig, pause);

    rig->is_paused = false;
    loop_stop(&rig->loop);
}

static void start_pause(struct rig *rig, uint64_t ms)
{
    rig->is_paused = true;
    rt_timer_set(&rig->loop.rt, &rig->pause, rig_deadline(rig, ms), on_pause);
}

void rig_pause(struct rig *rig, uint64_t ms)
{
    start_pause(rig, ms);
    while (rig->is_paused)
        run(rig);
}

static bool has_died(const struct rig *rig, uint64_t box_id)
{
    for (size_t i = 0; i < rig->death_count; i++)
        if (rig->deaths[i] == box_id)
            return true;
    return false;
}

bool rig_wait_death(struct rig *rig, uint64_t box_id, uint64_t ms)
{
    start_pause(rig, ms);
    while (rig->is_paused && !has_died(rig, box_id))
        run(rig);
    rig->is_paused = false;
    rt_timer_cancel(&rig->loop.rt, &rig->pause);
    return has_died(rig, box_id);
}

uint64_t rig_deadline(struct rig *rig, uint64_t ms)
{
    rt_refresh(&rig->loop.rt);
    return rt_after(rt_now(&rig->loop.rt), ms * NS_PER_MS);
}

uint64_t rig_soon(struct rig *rig)
{
    return rig_deadline(rig, 30000);
}

/* --- calls --- */

static void begin_call(struct rig *rig)
{
    rig->pending++;
    rig->is_calling = true;
}

static void end_call(struct rig *rig)
{
    rig->is_calling = false;
}

void rig_start_create(struct rig *rig, struct backend_create *r,
                      const struct config_profile *profile, uint64_t id, uint64_t deadline_ns)
{
    memset(r, 0, sizeof(*r));
    if (id == 0)
        rand_secure(&id, sizeof(id));
    r->profile = profile;
    r->labels.box_id = id;
    r->labels.spec_hash = 0xfedcba9876543210ULL;
    str_copy_cut(r->labels.instance, sizeof(r->labels.instance), rig_instance());
    str_copy_cut(r->labels.profile, sizeof(r->labels.profile), profile->name);
    (void) snprintf(r->token, sizeof(r->token), "token-%016llx", (unsigned long long) id);
    begin_call(rig);
    rig->backend->ops->create(rig->backend, r, deadline_ns, rig_done);
    end_call(rig);
}

void rig_start_destroy(struct rig *rig, struct backend_destroy *r, const struct backend_box *box,
                       uint64_t deadline_ns)
{
    memset(r, 0, sizeof(*r));
    r->profile = &rig->profile;
    r->box = *box;
    begin_call(rig);
    rig->backend->ops->destroy(rig->backend, r, deadline_ns, rig_done);
    end_call(rig);
}

void rig_start_update(struct rig *rig, struct backend_update *r, const struct backend_box *box,
                      const struct backend_extras *extras, uint64_t deadline_ns)
{
    memset(r, 0, sizeof(*r));
    r->profile = &rig->profile;
    r->box = *box;
    r->extras = *extras;
    begin_call(rig);
    rig->backend->ops->update(rig->backend, r, deadline_ns, rig_done);
    end_call(rig);
}

void rig_cancel(struct rig *rig, struct op *op)
{
    rig->is_calling = true;
    op_cancel(op);
    op_cancel(op); /* asking twice changes nothing */
    rig->is_calling = false;
}

int rig_create(struct rig *rig, struct backend_create *r, const struct config_profile *profile)
{
    rig_start_create(rig, r, profile, 0, rig_soon(rig));
    rig_wait(rig);
    if (r->op.result != SP_OK)
        print_message("create: %s\n", r->op.err.msg);
    return r->op.result;
}

void rig_wait_ready(struct rig *rig, const struct backend_box *box)
{
    struct probe p = {.attempts = 0};

    if (box->is_ready)
        return;
    assert_true(str_copy(p.url, sizeof(p.url), box->url));
    assert_true(str_copy(p.token, sizeof(p.token), box->token));
    begin_call(rig);
    probe_start(rig->http, &rig->loop.rt, &p, NULL, rig_soon(rig), rig_done);
    end_call(rig);
    rig_wait(rig);
    if (p.op.result != SP_OK)
        fail_msg("%s", p.op.err.msg);
}

int rig_destroy(struct rig *rig, struct backend *b, const struct backend_labels *labels)
{
    struct backend_destroy r = {.profile = NULL};

    r.box.labels = *labels; /* no ref: what is known when a create was cut short */
    begin_call(rig);
    b->ops->destroy(b, &r, rig_soon(rig), rig_done);
    end_call(rig);
    rig_wait(rig);
    if (r.op.result == SP_OK)
        assert_true(strlen(r.released.text) > 0);
    return r.op.result;
}

int rig_check(struct rig *rig, const struct backend_box *box, enum backend_verdict *ret)
{
    struct backend_check r = {.box = *box};

    begin_call(rig);
    rig->backend->ops->is_alive(rig->backend, &r, rig_soon(rig), rig_done);
    end_call(rig);
    rig_wait(rig);
    *ret = r.op.result == SP_OK ? r.verdict : BACKEND_UNKNOWN;
    return r.op.result;
}

size_t rig_list(struct rig *rig, struct backend *b, uint64_t id, struct backend_box *ret_box,
                bool *ret_is_listed)
{
    struct backend_list r = {.boxes = NULL};
    size_t count;

    begin_call(rig);
    b->ops->list(b, &r, rig_soon(rig), rig_done);
    end_call(rig);
    rig_wait(rig);
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

bool rig_is_listed(struct rig *rig, uint64_t id)
{
    bool is_listed;

    (void) rig_list(rig, rig->backend, id, NULL, &is_listed);
    return is_listed;
}

bool rig_discover(struct rig *rig, const char *sandbox_id, struct backend_box *ret_box)
{
    struct backend_discover r = {.is_found = false};

    str_copy_cut(r.sandbox_id, sizeof(r.sandbox_id), sandbox_id);
    begin_call(rig);
    rig->backend->ops->discover(rig->backend, &r, rig_soon(rig), rig_done);
    end_call(rig);
    rig_wait(rig);
    assert_int_equal(r.op.result, SP_OK);
    *ret_box = r.box;
    return r.is_found;
}

int rig_bind(struct rig *rig, const struct backend_box *box)
{
    struct backend_bind r = {.box = *box};

    begin_call(rig);
    rig->backend->ops->bind(rig->backend, &r, rig_soon(rig), rig_done);
    end_call(rig);
    rig_wait(rig);
    return r.op.result;
}
