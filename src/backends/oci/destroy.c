/* destroy.c - the end of a box, whoever asks for it: one removal per box at a time, and everybody who
 * wants the box gone is notified of its end. A caller that leaves does not stop it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

enum removal_step {
    REMOVAL_LOOKS, /* only when the runtime is not known */
    REMOVAL_ACTS,
    REMOVAL_ENDS,
    REMOVAL_STEP_COUNT
};

struct removal {
    enum removal_step step;
    int result;
    struct err err;
    struct work look;
    struct oci_found found;
    struct oci_helper helper;
    struct oci *oci;
    struct oci_box *box;
};

static void tick(struct removal *m);

static void go(struct removal *m, enum removal_step step)
{
    m->step = step;
    tick(m);
}

static void go_end(struct removal *m, int rc, const struct err *err)
{
    m->result = rc;
    if (rc != SP_OK)
        m->err = *err;
    go(m, REMOVAL_ENDS);
}

static uint64_t number(const struct json *answer, const char *key)
{
    const struct json *v = json_get(answer, key);
    uint64_t n = 0;

    return v != NULL && json_u64(v, &n) ? n : 0;
}

/* What was not counted is null, or missing. */
static struct backend_count count(const struct json *answer, const char *key)
{
    struct backend_count c = {0};

    c.is_known = json_u64(json_get(answer, key), &c.n);
    return c;
}

static void read_answer(const struct json *answer, struct backend_released *ret)
{
    uint64_t files = number(answer, "files");
    uint64_t cgroups = number(answer, "cgroups");
    const struct json *was_running = json_get(answer, "was_running");

    ret->processes = count(answer, "processes");
    ret->mounts = count(answer, "mounts");
    ret->layers = count(answer, "layers");
    ret->bytes = count(answer, "bytes");
    if (files + cgroups == 0) {
        str_copy_cut(ret->text, sizeof(ret->text), "the box was not there");
        return;
    }
    (void) snprintf(
        ret->text, sizeof(ret->text), "%s, %llu control groups and %llu files were removed",
        was_running != NULL && json_bool(was_running) ? "the box was stopped" : "the box had ended",
        (unsigned long long) cgroups, (unsigned long long) files);
}

static void end(struct removal *m)
{
    struct oci *o = m->oci;
    struct oci_box *b = m->box;
    int rc = m->result;
    struct list removers;
    struct backend_released released = {.text = ""};

    if (rc != SP_OK)
        log_warn("oci.remove_failed", LF_HEX("box", b->entry.id), LF_STR("reason", m->err.msg));
    list_move(&b->entry.removers, &removers);
    read_answer(m->helper.answer != NULL ? json_root(m->helper.answer) : NULL, &released);
    if (b->has_resisted) { /* what an earlier try has ended is not counted by this one */
        released.processes.is_known = false;
        released.mounts.is_known = false;
    }
    b->has_resisted = rc != SP_OK;
    if (rc == SP_OK)
        oci_box_drop(b);
    else
        boxes_set(&b->entry, BOX_DEAD); /* the next destroy, or the next look, tries again */
    boxes_removed(&removers, rc, &m->err, &released);
    oci_helper_fini(&m->helper);
    free(m);
    oci_wake(o);
    closing_settle(&o->closing);
}

static void on_removed(struct op *op)
{
    FAULT_POINT("oci.after_remove");
    go_end(container_of(op, struct removal, helper.op), op->result, &op->err);
}

static void act(struct removal *m)
{
    struct oci *o = m->oci;

    FAULT_POINT("oci.before_remove");
    buf_init(&m->helper.plan, OCI_RECORD_MAX);
    oci_plan_remove(o, m->box->entry.id, m->box->runtime, &m->helper.plan);
    m->helper.verb = "remove";
    m->helper.pass_fd = -1;
    m->helper.limit_ns = m->box->removal_ns > 0 ? m->box->removal_ns : OCI_REMOVE_NS;
    /* How long it waits for its turn says nothing about this box. */
    oci_helper_start(o, &m->helper, RT_NEVER, on_removed);
}

/* Of another daemon: for us it is not there. */
static bool is_foreign(const struct removal *m)
{
    const char *instance = m->found.record.box.labels.instance;

    return !str_is_empty(instance) && strcmp(instance, m->oci->instance) != 0;
}

static void on_looked(struct op *op)
{
    struct removal *m = container_of(op, struct removal, look.op);

    oci_found_drop(&m->found);
    if (op->result != SP_OK) {
        go_end(m, op->result, &op->err);
        return;
    }
    if (m->found.has_record && is_foreign(m)) {
        go_end(m, SP_OK, NULL);
        return;
    }
    if (m->found.has_record)
        m->box->runtime = oci_runtime_by_path(m->oci, m->found.record.runtime);
    go(m, REMOVAL_ACTS);
}

static int run_look(struct work *w, struct err *err)
{
    struct removal *m = container_of(w, struct removal, look);

    return oci_look(m->oci->boxes_dir, m->found.id, &m->found, err);
}

static void look(struct removal *m)
{
    oci_found_init(&m->found);
    m->found.id = m->box->entry.id;
    m->look.run = run_look;
    work_start(m->oci->loop, &m->look, &m->oci->closing.inner, RT_NEVER, on_looked);
}

static void tick(struct removal *m)
{
    switch (m->step) {
    case REMOVAL_LOOKS:
        look(m);
        return;
    case REMOVAL_ACTS:
        act(m);
        return;
    case REMOVAL_ENDS:
        end(m);
        return;
    case REMOVAL_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

void oci_remove_box(struct oci_box *b)
{
    struct removal *m = xcalloc(1, sizeof(*m));

    assert(b->entry.state != BOX_REMOVING && b->entry.state != BOX_MAKING);
    boxes_set(&b->entry, BOX_REMOVING);
    m->oci = b->oci;
    m->box = b;
    go(m, b->runtime != NULL ? REMOVAL_ACTS : REMOVAL_LOOKS);
}

/* The first try has the time its caller waits, so that one that hangs is ended by then. Each later one has twice as
 * much: what is only slow gets done. */
static void limit_try(struct oci_box *b, uint64_t deadline_ns)
{
    uint64_t now_ns = rt_now(&b->oci->loop->rt);
    uint64_t wanted_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 1;

    if (b->removal_ns > 0)
        wanted_ns = MAX_OF(wanted_ns, MIN_OF(b->removal_ns, OCI_REMOVE_NS) * 2);
    b->removal_ns = MIN_OF(wanted_ns, OCI_REMOVE_NS);
}

void oci_destroy(struct backend *backend, struct backend_destroy *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct oci_box *b = oci_box_find(o, r->box.labels.box_id);

    if (b == NULL)
        b = oci_box_add(o, r->box.labels.box_id, BOX_DEAD);
    boxes_destroy(&b->entry, r, deadline_ns, on_done);
    if (b->entry.state == BOX_RUNNING || b->entry.state == BOX_DEAD) {
        limit_try(b, deadline_ns);
        oci_remove_box(b); /* one being made is removed when it is made, one being removed soon */
    }
}
