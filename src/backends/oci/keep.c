/* keep.c - what a durable box has written outlives it: when the box has ended, with its machine or alone, its disk becomes
 * a snapshot that its owner's next acquire is given a box from. It gets a second name beside a record, one rename makes it a
 * snapshot, and then the rest of the box goes, with the first name. Whatever stops this, a name is left, and the next
 * listing goes on from there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"

enum { PLAN_MAX = 16 * 1024 };

#define KEEP_NS (60 * NS_PER_S) /* once its turn has come */

enum keep_step {
    KEEP_LOOKS, /* at its record */
    KEEP_LINKS, /* sandpool-helper */
    KEEP_SEALS, /* it becomes a snapshot */
    KEEP_ENDS,
    KEEP_STEP_COUNT
};

struct keeping {
    struct oci *oci;
    struct oci_box *box;
    enum keep_step step;
    bool is_listed; /* a listing waits for it, and is followed by others */
    struct snapshot info;
    struct oci_found found;
    struct work look;
    struct work seal;
    struct oci_helper helper;
    int result;
    struct err err;
};

static void tick(struct keeping *k);

static void go(struct keeping *k, enum keep_step step)
{
    k->step = step;
    tick(k);
}

static void go_end(struct keeping *k, int rc, const struct err *err)
{
    k->result = rc;
    if (rc != SP_OK)
        k->err = *err;
    go(k, KEEP_ENDS);
}

/* --- the end --- */

/* What is left of it has no record that counts, and goes at the next start at the latest. */
static void undo(const struct keeping *k)
{
    static const char *const files[] = {"disk", "snapshot.json", "snapshot.json.new", NULL};
    char path[OCI_PATH_MAX + 64];

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        oci_snapshot_path(k->oci, k->info.id, true, files[i], path, sizeof(path));
        if (files[i] != NULL)
            (void) unlink(path); /* not each is there */
        else
            (void) rmdir(path);
    }
}

static void report(const struct keeping *k)
{
    const struct backend_events *events = k->oci->events;

    if (k->result == SP_OK) {
        log_info("oci.kept", LF_HEX("box", k->info.box_id), LF_HEX("snapshot", k->info.id));
        events->on_kept(events->ctx, &k->info);
        FAULT_POINT("keep.reported");
        return;
    }
    log_error("oci.not_kept", LF_HEX("box", k->info.box_id), LF_STR("reason", k->err.msg));
    if (!k->is_listed)
        events->on_resync(events->ctx); /* which tries it again */
}

static void end(struct keeping *k)
{
    struct oci *o = k->oci;
    struct oci_box *b = k->box;
    struct list woken;

    if (k->result == SP_OK)
        oci_snapshot_add(o, &k->info, k->found.record.id_base);
    else
        undo(k);
    oci_found_drop(&k->found);
    oci_helper_fini(&k->helper);
    b->is_keeping = false;
    boxes_set(&b->entry, BOX_DEAD);
    o->keeps--;
    if (!o->closing.is_closing) {
        if (k->result == SP_OK || !list_is_empty(&b->entry.removers))
            oci_remove_box(b);
        report(k);
    }
    free(k);
    list_init(&woken);
    if (o->keeps == 0)
        list_move(&o->keep_waiters, &woken);
    waiter_resume_all(&woken);
    closing_settle(&o->closing);
}

/* --- which box --- */

static int run_look(struct work *w, struct err *err)
{
    struct keeping *k = container_of(w, struct keeping, look);
    char dir[OCI_PATH_MAX + 64];
    int rc = oci_look(k->oci->boxes_dir, k->found.id, &k->found, err);

    if (rc != SP_OK)
        return rc;
    if (!k->found.has_record)
        return err_set(err, SP_BACKEND_FAILED, "the box has no record");
    oci_snapshot_path(k->oci, k->info.id, true, NULL, dir, sizeof(dir));
    return file_make_dir(dir, err);
}

static void on_looked(struct op *op)
{
    struct keeping *k = container_of(op, struct keeping, look.op);
    struct oci *o = k->oci;
    const struct oci_snapshot *parent;

    if (op->result != SP_OK) {
        go_end(k, op->result, &op->err);
        return;
    }
    k->info.parent = k->found.record.snapshot;
    parent = k->info.parent != 0 ? oci_snapshot_find_any(o, k->info.parent) : NULL;
    k->info.layers = parent != NULL ? oci_snapshot_depth(o, parent) + 1 : 1;
    go(k, KEEP_LINKS);
}

/* --- the second name --- */

static void on_linked(struct op *op)
{
    struct keeping *k = container_of(op, struct keeping, helper.op);
    struct err err = op->err;
    int rc = op->result;

    FAULT_POINT("keep.linked");
    if (rc == SP_OK && !json_u64(json_get(json_root(k->helper.answer), "size"), &k->info.size))
        rc = err_set(&err, SP_PROTOCOL, "sandpool-helper keep gave no answer");
    if (rc != SP_OK)
        go_end(k, rc, &err);
    else
        go(k, KEEP_SEALS);
}

static void start_link(struct keeping *k)
{
    struct oci *o = k->oci;
    char to[OCI_PATH_MAX + 64];

    oci_snapshot_path(o, k->info.id, true, "disk", to, sizeof(to));
    buf_init(&k->helper.plan, PLAN_MAX);
    oci_plan_keep(o, k->found.id, k->box->runtime, to, &k->helper.plan);
    k->helper.verb = "keep";
    k->helper.pass_fd = -1;
    k->helper.limit_ns = KEEP_NS;
    FAULT_POINT("keep.begun");
    oci_helper_start(o, &k->helper, RT_NEVER, on_linked);
}

/* --- it is whole --- */

static int run_seal(struct work *w, struct err *err)
{
    struct keeping *k = container_of(w, struct keeping, seal);
    char from[OCI_PATH_MAX + 64];
    char to[OCI_PATH_MAX + 64];
    int rc;

    oci_snapshot_path(k->oci, k->info.id, true, NULL, from, sizeof(from));
    oci_snapshot_path(k->oci, k->info.id, false, NULL, to, sizeof(to));
    if ((rc = oci_snapshot_write(from, &k->info, k->found.record.id_base, false, err)) != SP_OK)
        return rc;
    FAULT_POINT("keep.recorded");
    if (rename(from, to) != 0)
        return err_sys(err, SP_IO, errno, "rename '%.150s'", from);
    FAULT_POINT("keep.sealed");
    return oci_sync_dir(k->oci->snapshots.dir, err);
}

static void on_sealed(struct op *op)
{
    go_end(container_of(op, struct keeping, seal.op), op->result, &op->err);
}

static void tick(struct keeping *k)
{
    switch (k->step) {
    case KEEP_LOOKS:
        k->look.run = run_look;
        work_start(k->oci->loop, &k->look, &k->oci->closing.inner, RT_NEVER, on_looked);
        return;
    case KEEP_LINKS:
        start_link(k);
        return;
    case KEEP_SEALS:
        k->seal.run = run_seal;
        work_start(k->oci->loop, &k->seal, &k->oci->closing.inner, RT_NEVER, on_sealed);
        return;
    case KEEP_ENDS:
        end(k);
        return;
    case KEEP_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

bool oci_keep_start(struct oci_box *b, const struct backend_labels *labels)
{
    struct oci *o = b->oci;
    struct backend_labels only_id = {.box_id = b->entry.id};
    struct keeping *k;

    if (o->events == NULL || o->events->on_remains == NULL || o->closing.is_closing)
        return false;
    k = xcalloc(1, sizeof(*k));
    if (!o->events->on_remains(o->events->ctx, labels != NULL ? labels : &only_id, &k->info)) {
        free(k);
        return false;
    }
    assert(b->entry.state == BOX_DEAD);
    boxes_set(&b->entry, BOX_REMOVING);
    b->is_keeping = true;
    o->keeps++;
    k->oci = o;
    k->box = b;
    k->is_listed = labels != NULL;
    oci_found_init(&k->found);
    k->found.id = b->entry.id;
    go(k, KEEP_LOOKS);
    return true;
}
