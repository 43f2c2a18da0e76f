/* list.c - list and discover: which boxes are there. What runs and is ours is adopted, what is left over is swept. */
#include <stdlib.h>
#include <string.h>

#include "backends/oci/internal.h"
#include "base/mem.h"
#include "base/str.h"

#define SETTLE_NS (3 * NS_PER_S) /* how long an orphaned maker may take to die */
#define SETTLE_PAUSE_NS (20 * NS_PER_MS)

struct listing {
    struct oci_scan scan;
    struct rt_timer again;
    uint64_t until_ns;
    struct oci *oci;
    struct op *op;
    struct waiter waiter; /* until what durable boxes wrote is kept */
    bool was_kept;        /* tried once: what could not be kept is left to the next listing */
    void (*take)(struct listing *l, const struct oci_found *f);
    union {
        struct backend_list *list;
        struct backend_discover *discover;
    } for_;
};

static void start_scan(struct listing *l);

static void on_again(struct rt_timer *timer)
{
    start_scan(container_of(timer, struct listing, again));
}

/* Ours, and nobody of this process is at it. One that is still unsettled has had its time: its
 * maker is stuck, and no other daemon has this state directory. */
static bool is_leftover(struct oci *o, const struct oci_found *f)
{
    const char *instance = f->record.box.labels.instance;
    const struct oci_box *b = oci_box_find(o, f->id);

    if (b != NULL && b->entry.state != BOX_DEAD)
        return false;
    if (f->is_running && !f->is_unsettled) /* a trial that lost its daemon */
        return f->has_record && str_is_empty(instance);
    return !f->has_record || str_is_empty(instance) || strcmp(instance, o->instance) == 0;
}

/* True when somebody whose daemon has died is still making a box: look again soon. */
static bool is_unsettled(struct listing *l)
{
    for (size_t i = 0; i < l->scan.count; i++)
        if (l->scan.found[i].is_unsettled && oci_box_find(l->oci, l->scan.found[i].id) == NULL)
            return true;
    return false;
}

static void end_listing(struct listing *l, int rc, const struct err *err)
{
    oci_scan_fini(&l->scan);
    closing_finish(&l->oci->closing, l->op, rc, err);
    free(l);
}

static void sweep(struct oci *o, const struct oci_found *f)
{
    struct oci_box *b = oci_box_find(o, f->id);

    log_info("oci.leftover", LF_HEX("box", f->id));
    if (b == NULL)
        b = oci_box_add(o, f->id, BOX_DEAD);
    if (b->runtime == NULL && f->flavour >= 0)
        b->runtime = oci_runtime_by_flavour(o, (enum oci_flavour) f->flavour);
    oci_remove_box(b);
}

/* What it has written is kept if somebody wants it; else it is swept. */
static void keep(struct oci *o, const struct oci_found *f)
{
    struct oci_box *b = oci_box_find(o, f->id);

    if (b == NULL) {
        b = oci_box_add(o, f->id, BOX_DEAD);
        b->is_durable = true;
        b->runtime = oci_runtime_by_path(o, f->record.runtime);
        b->snapshot = f->record.snapshot;
        oci_snapshot_use(o, b->snapshot);
    }
    b->is_unwanted = !oci_keep_start(b, &f->record.box.labels);
}

/* Before anything else, so that the listing shows what there is then: whoever asks for his box gets it back. True: it
 * goes on when all is kept. */
static bool keep_first(struct listing *l)
{
    struct oci *o = l->oci;

    if (l->was_kept || o->closing.is_closing)
        return false;
    for (size_t i = 0; i < l->scan.count; i++)
        if (l->scan.found[i].has_remains && is_leftover(o, &l->scan.found[i]))
            keep(o, &l->scan.found[i]);
    if (o->keeps > 0)
        list_push_back(&o->keep_waiters, &l->waiter.link);
    return o->keeps > 0;
}

/* It could not be kept: the next listing tries it again. */
static bool is_waiting(struct oci *o, const struct oci_found *f)
{
    const struct oci_box *b = oci_box_find(o, f->id);

    return f->has_remains && b != NULL && !b->is_unwanted;
}

static void on_kept(struct waiter *w)
{
    struct listing *l = container_of(w, struct listing, waiter);

    l->was_kept = true;
    oci_scan_fini(&l->scan);
    start_scan(l);
}

/* Another daemon of this name, with a state directory of its own: its boxes are not ours to end. */
static bool is_elsewhere(struct oci *o, const struct oci_found *f)
{
    if (!f->is_elsewhere || oci_box_find(o, f->id) != NULL)
        return false;
    if (!o->is_name_taken)
        log_warn("oci.name_taken", LF_STR("instance", o->instance), LF_HEX("box", f->id),
                 LF_STR("hint", "each daemon of a machine needs an `instance` of its own"));
    o->is_name_taken = true;
    return true;
}

/* Nobody else uses this directory, so the name of the instance has been lost, or was changed. Their owners are
 * not served and nobody ends them: whoever operates this has to know. */
static void note_foreign(struct oci *o, const struct oci_found *f)
{
    if (o->foreign_count == 0) {
        str_copy_cut(o->foreign_instance, sizeof(o->foreign_instance),
                     f->record.box.labels.instance);
        log_error("oci.boxes_of_another_instance", LF_HEX("box", f->id),
                  LF_STR("its_instance", o->foreign_instance), LF_STR("instance", o->instance),
                  LF_STR("hint", OCI_FOREIGN_HINT));
    }
    o->foreign_count++;
}

/* A box that went while we looked may have been taken for one that is new. */
static void forget_unseen(struct listing *l)
{
    struct oci *o = l->oci;
    struct list_node *next;

    for (struct list_node *n = list_first(&o->boxes.all); n != NULL; n = next) {
        struct oci_box *b = container_of(n, struct oci_box, entry.link);
        bool is_seen = false;

        next = list_next(&o->boxes.all, n);
        for (size_t i = 0; b->entry.state == BOX_DEAD && i < l->scan.count && !is_seen; i++)
            is_seen = l->scan.found[i].id == b->entry.id;
        if (b->entry.state == BOX_DEAD && !is_seen)
            oci_remove_box(b);
    }
}

static void on_scanned(struct op *op)
{
    struct listing *l = container_of(op, struct listing, scan.work.op);
    struct oci *o = l->oci;
    struct err err = op->err;
    int rc = op->result;

    if (rc == SP_OK && is_unsettled(l) && rt_now(&o->loop->rt) < l->until_ns &&
        !o->closing.is_closing) {
        oci_scan_fini(&l->scan);
        rt_timer_set(&o->loop->rt, &l->again, rt_after(rt_now(&o->loop->rt), SETTLE_PAUSE_NS),
                     on_again);
        return;
    }
    if (rc == SP_OK && keep_first(l))
        return;
    if (rc == SP_OK)
        o->foreign_count = 0;
    for (size_t i = 0; rc == SP_OK && i < l->scan.count; i++) {
        struct oci_found *f = &l->scan.found[i];
        const struct oci_box *b;

        if (is_elsewhere(o, f))
            continue;
        if (is_leftover(o, f)) {
            if (!is_waiting(o, f))
                sweep(o, f);
            continue;
        }
        if (!f->has_record || strcmp(f->record.box.labels.instance, o->instance) != 0) {
            if (f->has_record && f->is_running && !str_is_empty(f->record.box.labels.instance))
                note_foreign(o, f); /* without a name: a trial of ours */
            continue;
        }
        oci_box_adopt(o, f);
        b = oci_box_find(o, f->id);
        if (b != NULL && b->entry.state == BOX_RUNNING)
            l->take(l, f);
    }
    if (rc == SP_OK) {
        forget_unseen(l);
        oci_snapshots_collect(o);
    }
    end_listing(l, rc, &err);
}

static void start_scan(struct listing *l)
{
    oci_scan_start(l->oci, &l->scan, RT_NEVER, on_scanned);
}

static void start_listing(struct oci *o, struct listing *l, struct op *op)
{
    l->oci = o;
    l->op = op;
    l->waiter.resume = on_kept;
    l->until_ns = rt_after(rt_now(&o->loop->rt), SETTLE_NS);
    start_scan(l);
}

static void take_all(struct listing *l, const struct oci_found *f)
{
    struct backend_list *r = l->for_.list;

    if (r->boxes == NULL)
        r->boxes = xcalloc(l->scan.count, sizeof(r->boxes[0]));
    r->boxes[r->count] = f->record.box;
    r->boxes[r->count].is_frozen = f->is_frozen;
    r->count++;
}

void oci_list(struct backend *backend, struct backend_list *r, uint64_t deadline_ns,
              void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct listing *l = xcalloc(1, sizeof(*l));

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, NULL, on_done);
    r->boxes = NULL;
    r->count = 0;
    l->take = take_all;
    l->for_.list = r;
    start_listing(o, l, &r->op);
}

static void take_one(struct listing *l, const struct oci_found *f)
{
    struct backend_discover *r = l->for_.discover;

    if (strcmp(f->record.box.labels.sandbox_id, r->sandbox_id) != 0)
        return;
    r->is_found = true;
    r->box = f->record.box;
    r->box.is_frozen = f->is_frozen;
}

void oci_discover(struct backend *backend, struct backend_discover *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct listing *l = xcalloc(1, sizeof(*l));

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, NULL, on_done);
    r->is_found = false;
    l->take = take_one;
    l->for_.discover = r;
    start_listing(o, l, &r->op);
}
