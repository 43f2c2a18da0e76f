/* create.c - creates as they come in: one per box makes it, the others join; each waits for its turn and
 * its image before the engine is asked. A caller may leave at any step. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/docker/making.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"

#define PATIENCE_NS (200 * NS_PER_MS)

/* --- before the engine is asked --- */

/* The engine follows links wherever they lead, so none may be on the way; what happens to the path
 * after this look is between those who may write there. On a thread: a file system may be stuck. */
static int check_sources(struct work *w, struct err *err)
{
    const struct backend_extras *x = container_of(w, struct making, work)->sources;
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};

    for (size_t i = 0; i < x->mount_count; i++) {
        const char *path = x->mounts[i].host_path;
        AUTO_CLOSE int fd = (int) syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

        if (fd < 0 && errno == ELOOP)
            return err_set(err, SP_FORBIDDEN, "there is a symbolic link in '%.120s'", path);
        if (fd < 0)
            return err_sys(err, SP_INVALID_FIELD, errno, "'%.120s' cannot be mounted", path);
    }
    return SP_OK;
}

/* The image of the snapshot that it is made from; false: there is none. */
static bool put_snapshot(const struct making *m, char ret[static DOCKER_SNAPSHOT_NAME_MAX])
{
    const struct backend_extras *x = m->request->extras;
    uint64_t id;

    ret[0] = '\0';
    if (x == NULL || x->snapshot == NULL || !str_parse_hex64(x->snapshot, &id))
        return false;
    docker_snapshot_name(id, ret);
    return true;
}

/* Of the create, and of those that may come after it. */
static void put_bodies(struct making *m, struct docker_plan *plan)
{
    const struct docker *d = m->docker;
    char snapshot[DOCKER_SNAPSHOT_NAME_MAX];

    if (m->disk_way == DOCKER_DISK_ENGINE && d->storage == DOCKER_STORAGE_UNTRIED) {
        m->fallback_way = plan->disk = docker_disk_second(d, plan->profile);
        docker_put_body(plan, &m->fallback);
    }
    plan->disk = m->disk_way;
    docker_put_body(plan, &m->body);
    if (!m->rebase.is_wanted || !put_snapshot(m, snapshot))
        return;
    plan->is_rebased = false;
    plan->image = snapshot;
    buf_init(&m->rebase.old_body, DOCKER_BODY_MAX);
    docker_put_body(plan, &m->rebase.old_body);
    plan->image = m->image_name; /* the name of the snapshot goes */
}

static int prepare(struct making *m, const struct docker_image *image, struct err *err)
{
    const struct backend_create *r = m->request;
    const struct config_profile *p = r->profile;
    struct docker *d = m->docker;
    struct docker_plan plan = {.profile = p,
                               .extras = r->extras,
                               .labels = &m->made.labels,
                               .token = r->token,
                               .work_dir = image->work_dir,
                               .image_user = image->user,
                               .image = m->image_name,
                               .is_rebased = m->rebase.is_wanted,
                               .is_podman = d->is_podman};
    bool is_local = !str_is_empty(d->socket);
    int rc = SP_OK;

    m->has_extras = r->extras != NULL;
    m->disk_way = docker_disk_first(d, p);
    if (p->limits.disk > 0 && p->docker.disk == CONFIG_DISK_PLACES &&
        d->storage != DOCKER_STORAGE_CAN && (rc = docker_disk_check(d, p, err)) != SP_OK)
        return rc;
    buf_init(&m->body, DOCKER_BODY_MAX);
    buf_init(&m->fallback, DOCKER_BODY_MAX);
    if (d->is_podman && !str_is_empty(p->runtime))
        return err_set(err, SP_CONFIG,
                       "Podman would ignore `runtime: %.60s`: make it the default of its service "
                       "(--runtime) and leave `runtime` empty",
                       p->runtime);
    if (p->agent == CONFIG_AGENT_INJECT && str_is_empty(d->agent))
        return err_set(err, SP_CONFIG, "there is no sandpool-agent: set agent.path");
    if (p->network.mode != CONFIG_NETWORK_NAT && !is_local)
        return err_set(err, SP_CONFIG,
                       "`network: none` and `host` need an engine on this machine, at a Unix "
                       "socket: use `network: nat`");
    m->made.labels = r->labels;
    str_copy_cut(m->made.labels.instance, sizeof(m->made.labels.instance), d->instance);
    str_copy_cut(m->made.token, sizeof(m->made.token), r->token);
    m->want_upload =
        p->agent == CONFIG_AGENT_INJECT && (p->docker.inject == CONFIG_INJECT_UPLOAD ||
                                            (p->docker.inject == CONFIG_INJECT_AUTO && !is_local));
    if (p->agent == CONFIG_AGENT_INJECT && !m->want_upload)
        plan.agent = d->agent;
    if (p->network.mode != CONFIG_NETWORK_NAT)
        rc = docker_relay_new(d, m->box->entry.id, making_taken, m, &m->relay, err);
    if (rc != SP_OK)
        return rc;
    if (m->relay != NULL) {
        plan.relay_dir = docker_relay_dir(m->relay);
        plan.relay_port = docker_relay_port(m->relay);
        (void) snprintf(m->made.url, sizeof(m->made.url), "http://127.0.0.1:%u", plan.relay_port);
    }
    put_bodies(m, &plan);
    m->disk.disk = p->limits.disk;
    m->disk.has_agent = p->agent == CONFIG_AGENT_INJECT;
    str_copy_cut(m->disk.work_dir, sizeof(m->disk.work_dir), image->work_dir);
    return buf_failed(&m->body) ? err_set(err, SP_TOO_BIG, "the environment is too large") : SP_OK;
}

static void go_to_docker(struct making *m)
{
    struct err err;
    int rc = prepare(m, &m->image, &err);

    if (rc == SP_OK)
        making_create(m);
    else
        making_finish(m, rc, &err);
}

static void on_checked(struct op *op)
{
    struct making *m = container_of(op, struct making, work.op);

    free(TAKE_PTR(m->sources));
    if (m->request == NULL)
        making_finish(m, SP_CANCELLED, NULL);
    else if (op->result != SP_OK)
        making_finish(m, op->result, &op->err);
    else
        go_to_docker(m);
}

static void on_turn(struct waiter *w)
{
    struct making *m = container_of(w, struct making, waiter);
    const struct backend_extras *x = m->request->extras;
    struct docker *d = m->docker;

    m->is_inside = true;
    if (x == NULL || x->mount_count == 0 || str_is_empty(d->socket)) { /* elsewhere: unseen */
        go_to_docker(m);
        return;
    }
    m->step = MAKING_CALLS; /* who leaves does not end it */
    m->sources = backend_extras_copy(x);
    m->work.run = check_sources;
    work_start(d->loop, &m->work, &d->closing.inner, RT_NEVER, on_checked);
}

/* --- the image, before the turn: who waits for a pull is in nobody's way --- */

static void on_image(struct waiter *w)
{
    struct making *m = container_of(w, struct making, waiter);
    char snapshot[DOCKER_SNAPSHOT_NAME_MAX];
    struct err err;
    int rc = docker_image_result(m->pull, &m->image, &err);

    m->pull = NULL;
    rt_timer_cancel(&m->docker->loop->rt, &m->patience);
    if (rc != SP_OK) {
        making_finish(m, rc, &err);
        return;
    }
    if (put_snapshot(m, snapshot))
        rebase_compare(m, snapshot);
    m->step = MAKING_AT_GATE;
    m->waiter.resume = on_turn;
    if (gate_enter(&m->docker->creates, &m->waiter))
        on_turn(&m->waiter);
}

static void leave_image(struct making *m)
{
    rt_timer_cancel(&m->docker->loop->rt, &m->patience);
    docker_image_leave(m->pull, &m->waiter);
    m->pull = NULL;
}

/* Just before the deadline, whose error could not name what was waited for. */
static void on_patience(struct rt_timer *timer)
{
    struct making *m = container_of(timer, struct making, patience);
    struct err err;

    docker_image_describe(m->pull, &err);
    leave_image(m);
    making_finish(m, err.code, &err);
}

void making_want_image(struct making *m)
{
    struct rt *rt = &m->docker->loop->rt;
    uint64_t deadline_ns = m->deadline_ns;
    char name[DOCKER_SNAPSHOT_NAME_MAX];
    struct docker_source source;

    docker_source_of(m->request->profile, &source);
    if (put_snapshot(m, name)) {
        if (rebase_looks(m, name))
            return;
        m->fit.is_wanted = true;
    }
    if (m->fit.is_wanted && !m->rebase.is_wanted) {
        str_copy_cut(source.image, sizeof(source.image), name);
        source.pull = CONFIG_PULL_NEVER;
    }
    str_copy_cut(m->image_name, sizeof(m->image_name), source.image);
    m->step = MAKING_AT_IMAGE;
    m->waiter.resume = on_image;
    m->pull = docker_image_get(m->docker, &source, &m->waiter);
    if (deadline_ns != RT_NEVER && deadline_ns > rt_after(rt_now(rt), 2 * PATIENCE_NS))
        rt_timer_set(rt, &m->patience, deadline_ns - PATIENCE_NS, on_patience);
}

/* --- who comes first --- */

static void enter(struct waiter *w);

static void make(struct making *m)
{
    struct docker *d = m->docker;
    const struct backend_create *r = m->request;
    struct docker_box *b = docker_box_add(d, r->labels.box_id, BOX_MAKING);
    char hex[17];

    m->box = b;
    b->on_death = making_died;
    b->ctx = m;
    str_copy_cut(b->prefix, sizeof(b->prefix), r->profile->docker.container_prefix);
    str_hex64(hex, b->entry.id);
    (void) snprintf(m->name, sizeof(m->name), "%s-%s", b->prefix, hex);
    making_want_image(m);
}

/* A box of this id may exist, be made or be removed right now. */
static void enter(struct waiter *w)
{
    struct making *m = container_of(w, struct making, waiter);
    struct docker_box *b = docker_box_find(m->docker, m->request->labels.box_id);
    struct err err;

    if (b == NULL) {
        make(m);
        return;
    }
    if (b->entry.state == BOX_RUNNING) {
        making_see(m, b->container);
        return;
    }
    if (b->entry.state == BOX_DEAD && m->has_waited) {
        making_finish(
            m, err_set(&err, SP_BACKEND_FAILED, "the remains of the box cannot be removed"), &err);
        return;
    }
    m->has_waited = true;
    m->step = MAKING_JOINS;
    list_push_back(&b->entry.joiners, &m->waiter.link);
    if (b->entry.state == BOX_DEAD)
        docker_remove_box(b);
}

static void on_cancel(struct op *op)
{
    struct making *m = container_of(op, struct backend_create, op)->priv;
    struct docker *d = m->docker;

    switch (m->step) {
    case MAKING_JOINS:
        list_remove(&docker_box_find(d, m->request->labels.box_id)->entry.joiners, &m->waiter.link);
        making_finish(m, SP_CANCELLED, NULL);
        return;
    case MAKING_AT_GATE:
        list_remove(&d->creates.waiting, &m->waiter.link);
        making_finish(m, SP_CANCELLED, NULL);
        return;
    case MAKING_AT_IMAGE:
        leave_image(m);
        making_finish(m, SP_CANCELLED, NULL);
        return;
    case MAKING_AT_RELAY:
        making_answer(m, SP_CANCELLED, NULL);
        (void) making_is_over(m);
        return;
    case MAKING_CALLS:
    case MAKING_UNDOES:
        making_answer(m, SP_CANCELLED, NULL); /* the call goes on to its end */
        return;
    case MAKING_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

void docker_create(struct backend *backend, struct backend_create *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct making *m = xcalloc(1, sizeof(*m));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_cancel, on_done);
    m->docker = d;
    m->request = r;
    m->deadline_ns = deadline_ns;
    m->waiter.resume = enter;
    r->priv = m;
    enter(&m->waiter);
}
