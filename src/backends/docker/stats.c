/* stats.c - what a box has used. Where the engine runs on this machine, the kernel is asked on a thread, by the container's
 * first process, which the engine names once; else the engine itself. */
#include <stdlib.h>
#include <string.h>

#include "backend/counters.h"
#include "backends/docker/internal.h"
#include "backends/docker/stats.h"
#include "base/mem.h"
#include "base/str.h"

enum { INTERFACES_MAX = 64 };

enum counting_step {
    COUNTING_READS,    /* with the process that is known */
    COUNTING_INSPECTS, /* which process it is */
    COUNTING_ASKS,     /* the engine counts */
    COUNTING_STEP_COUNT
};

/* `priv` of the request, which may end before. */
struct counting {
    enum counting_step step;
    struct call call;
    struct work work;
    struct docker *docker;
    struct backend_stats *request; /* NULL: nobody waits any more */
    uint64_t id;
    uint64_t deadline_ns;
    uint64_t pid;
    bool has_inspected;
    char container[DOCKER_CONTAINER_MAX + 1];
    struct backend_counters counters;
};

static void tick(struct counting *c);

static void go(struct counting *c, enum counting_step step)
{
    c->step = step;
    tick(c);
}

static void end(struct counting *c, int rc, const struct err *err)
{
    struct docker *d = c->docker;
    struct backend_stats *r = c->request;

    if (r != NULL) {
        r->priv = NULL;
        if (rc == SP_OK)
            r->counters = c->counters;
        closing_finish(&d->closing, &r->op, rc, err);
    }
    call_fini(&c->call);
    free(c);
    closing_settle(&d->closing);
}

static void end_dead(struct counting *c)
{
    struct err err;
    int rc = err_set(&err, ERR_BOX_DEAD, "the box does not run");

    end(c, rc, &err);
}

/* --- by the kernel --- */

static int run(struct work *w, struct err *err UNUSED)
{
    struct counting *c = container_of(w, struct counting, work);

    (void) counters_read((int) c->pid, c->container, &c->counters); /* else nothing is known */
    return SP_OK;
}

/* A process that is not the container's any more, or never was to be seen here, shows nothing. */
static void on_read(struct op *op)
{
    struct counting *c = container_of(op, struct counting, work.op);
    struct docker_box *b = docker_box_find(c->docker, c->id);

    if (c->request == NULL || c->counters.cpu_us.is_known) {
        if (b != NULL && c->counters.cpu_us.is_known)
            b->pid = c->pid;
        end(c, SP_OK, NULL);
        return;
    }
    if (b != NULL)
        b->pid = 0;
    go(c, c->has_inspected ? COUNTING_ASKS : COUNTING_INSPECTS);
}

/* --- by the engine --- */

static void start_call(struct counting *c, const char *what, void (*on_done)(struct op *))
{
    call_fini(&c->call);
    docker_call_init(c->docker, &c->call, "GET");
    buf_printf(&c->call.path, "/containers/%s/%s", c->container, what);
    docker_call_start(&c->call, c->deadline_ns, on_done);
}

/* The answer; NULL: it has ended. */
static struct json_doc *answer_of(struct counting *c)
{
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&c->call, &doc, &err);

    if (rc == SP_OK)
        return doc;
    if (rc == SP_NOT_FOUND)
        end_dead(c);
    else
        end(c, rc, &err);
    return NULL;
}

static void on_inspected(struct op *op)
{
    struct counting *c = container_of(op, struct counting, call.op);
    struct json_doc *doc = answer_of(c);
    bool is_seen;

    if (doc == NULL)
        return;
    is_seen = json_u64(json_get(json_get(json_root(doc), "State"), "Pid"), &c->pid);
    (void) json_doc_free(doc);
    c->has_inspected = true;
    if (is_seen && c->pid == 0)
        end_dead(c);
    else
        go(c, is_seen && c->pid <= INT32_MAX ? COUNTING_READS : COUNTING_ASKS);
}

static struct backend_count number(const struct json *v)
{
    struct backend_count n = {0};

    n.is_known = v != NULL && json_u64(v, &n.n);
    return n;
}

static void add(struct backend_count *to, struct backend_count n)
{
    if (n.is_known)
        *to = backend_counted(to->n + n.n);
}

static struct backend_count memory_of(const struct json *memory)
{
    const struct json *stats = json_get(memory, "stats");
    struct backend_count held = number(json_get(memory, "usage"));
    struct backend_count unused = number(json_get(stats, "total_inactive_file"));

    if (!unused.is_known)
        unused = number(json_get(stats, "inactive_file"));
    if (held.is_known && unused.is_known)
        held.n -= MIN_OF(held.n, unused.n);
    return held;
}

/* An engine that counts no bytes of disks has an empty list. */
static void add_disks(const struct json *list, struct backend_counters *ret)
{
    for (size_t i = 0; i < json_len(list); i++) {
        const struct json *entry = json_at(list, i);
        const char *kind = json_str(json_get(entry, "op"));
        struct backend_count bytes = number(json_get(entry, "value"));

        if (kind != NULL && strcasecmp(kind, "read") == 0)
            add(&ret->disk_read, bytes);
        else if (kind != NULL && strcasecmp(kind, "write") == 0)
            add(&ret->disk_write, bytes);
    }
}

static void take_answer(const struct json *root, struct backend_counters *ret)
{
    const struct json *networks = json_get(root, "networks");
    const struct json *cpu = json_get(json_get(root, "cpu_stats"), "cpu_usage");
    const struct json *interface;
    const char *name;

    ret->cpu_us = number(json_get(cpu, "total_usage"));
    ret->cpu_us.n /= NS_PER_US;
    ret->memory = memory_of(json_get(root, "memory_stats"));
    add_disks(json_get(json_get(root, "blkio_stats"), "io_service_bytes_recursive"), ret);
    for (size_t i = 0; i < INTERFACES_MAX && json_member(networks, i, &name, &interface); i++) {
        add(&ret->net_in, number(json_get(interface, "rx_bytes")));
        add(&ret->net_out, number(json_get(interface, "tx_bytes")));
    }
}

static void on_asked(struct op *op)
{
    struct counting *c = container_of(op, struct counting, call.op);
    struct json_doc *doc = answer_of(c);

    if (doc == NULL)
        return;
    take_answer(json_root(doc), &c->counters);
    (void) json_doc_free(doc);
    if (c->counters.cpu_us.n == 0 && !c->counters.memory.is_known) /* it has ended */
        end_dead(c);
    else
        end(c, SP_OK, NULL);
}

/* --- the steps --- */

static void tick(struct counting *c)
{
    struct docker *d = c->docker;

    switch (c->step) {
    case COUNTING_READS:
        c->work = (struct work){.run = run};
        work_start(d->loop, &c->work, &d->closing.inner, RT_NEVER, on_read);
        return;
    case COUNTING_INSPECTS:
        start_call(c, "json", on_inspected);
        return;
    case COUNTING_ASKS:
        start_call(c, "stats?stream=false&one-shot=true", on_asked);
        return;
    case COUNTING_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

static void on_cancel(struct op *op)
{
    struct backend_stats *r = container_of(op, struct backend_stats, op);
    struct counting *c = r->priv;

    c->request = NULL;
    r->priv = NULL;
    if (op_is_active(&c->call.op))
        op_cancel(&c->call.op);
    closing_finish(&c->docker->closing, op, SP_CANCELLED, NULL);
}

void docker_stats(struct backend *backend, struct backend_stats *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    const struct docker_box *b = docker_box_find(d, r->box.labels.box_id);
    struct counting *c;
    struct err err;

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_cancel, on_done);
    r->counters = (struct backend_counters){0};
    if (b == NULL || b->entry.state != BOX_RUNNING || str_is_empty(b->container)) {
        closing_finish(&d->closing, &r->op, err_set(&err, ERR_BOX_DEAD, "the box does not run"),
                       &err);
        return;
    }
    c = xcalloc(1, sizeof(*c));
    c->docker = d;
    c->request = r;
    c->id = b->entry.id;
    c->deadline_ns = deadline_ns;
    c->pid = b->pid;
    str_copy_cut(c->container, sizeof(c->container), b->container);
    r->priv = c;
    go(c, d->base.is_elsewhere ? COUNTING_ASKS : c->pid != 0 ? COUNTING_READS : COUNTING_INSPECTS);
}
