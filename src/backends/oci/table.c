/* table.c - the boxes in memory: which exist, which user ids they have, and the pidfd that reports
 * their death. Small on purpose: what a box is like stays in its box.json. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/mem.h"

struct oci_box *oci_box_find(struct oci *o, uint64_t id)
{
    struct box_entry *e = boxes_find(&o->boxes, id);

    return e != NULL ? container_of(e, struct oci_box, entry) : NULL;
}

struct oci_box *oci_box_add(struct oci *o, uint64_t id, enum box_state state)
{
    struct oci_box *b = xcalloc(1, sizeof(*b));

    b->oci = o;
    b->id_slot = UINT32_MAX;
    boxes_add(&o->boxes, &b->entry, id, state);
    return b;
}

void oci_box_drop(struct oci_box *b)
{
    struct oci *o = b->oci;

    if (b->id_slot != UINT32_MAX)
        o->id_used[b->id_slot / 8] &= (uint8_t) ~(1U << (b->id_slot % 8));
    fdwatch_free(b->watch);
    for (size_t i = 0; i < OCI_BESIDE_COUNT; i++)
        fdwatch_free(b->beside[i].watch);
    oci_snapshot_unuse(o, b->snapshot);
    free(b->egress);
    boxes_drop(&b->entry);
    free(b);
}

static bool has_bit(const uint8_t *bits, uint32_t slot)
{
    return (bits[slot / 8] & (1U << (slot % 8))) != 0;
}

static void use_slot(struct oci_box *b, uint32_t slot)
{
    uint8_t bit = (uint8_t) (1U << (slot % 8));

    b->id_slot = slot;
    b->oci->id_used[slot / 8] |= bit;
    b->oci->id_lived[slot / 8] &= (uint8_t) ~bit; /* it was this one */
}

void oci_avoid_living(struct oci *o, const struct oci_living *l)
{
    memset(o->id_lived, 0, o->id_slots / 8 + 1);
    for (size_t i = 0; i < l->count; i++) {
        uint64_t slot = (l->ids[i] - o->id_base) / OCI_ID_COUNT;

        if (l->ids[i] >= o->id_base && slot < o->id_slots && !has_bit(o->id_used, (uint32_t) slot))
            o->id_lived[slot / 8] |= (uint8_t) (1U << (slot % 8));
    }
}

static bool take_slot(struct oci_box *b, uint32_t *ret_base)
{
    struct oci *o = b->oci;

    /* The longest unused first: whatever an old box left behind has had time to go. */
    for (uint32_t i = 0; i < o->id_slots; i++) {
        uint32_t slot = (o->id_next + i) % o->id_slots;

        if (has_bit(o->id_used, slot) || has_bit(o->id_lived, slot))
            continue;
        use_slot(b, slot);
        o->id_next = (slot + 1) % o->id_slots;
        *ret_base = (uint32_t) (o->id_base + (uint64_t) slot * OCI_ID_COUNT);
        return true;
    }
    return false;
}

bool oci_take_ids(struct oci_box *b, uint32_t *ret_base)
{
    struct oci *o = b->oci;
    struct oci_living living = {0};

    if (o->is_rootless) {
        *ret_base = 0;
        return true;
    }
    if (take_slot(b, ret_base))
        return true;
    /* Those who had the others at the start may have ended since. */
    oci_living_read(&living, o->id_base);
    oci_avoid_living(o, &living);
    oci_living_fini(&living);
    return take_slot(b, ret_base);
}

static void on_death(void *ctx)
{
    struct oci_box *b = ctx;
    const struct backend_events *events = b->oci->events;

    fdwatch_free(b->watch);
    b->watch = NULL;
    if (b->entry.state != BOX_RUNNING)
        return;
    boxes_set(&b->entry, BOX_DEAD);
    if (b->is_durable && oci_keep_start(b, NULL))
        return;
    if (events != NULL && b->death != BACKEND_DEATH_PLAIN && events->on_alone != NULL)
        events->on_alone(events->ctx, b->entry.id, b->death);
    else if (events != NULL && events->on_died != NULL)
        events->on_died(events->ctx, b->entry.id, "its init has ended");
}

static bool has_ended(const struct fdwatch *watch)
{
    struct pollfd p = {.fd = fdwatch_fd(watch), .events = POLLIN};

    return poll(&p, 1, 0) != 0;
}

void oci_box_end(struct oci_box *b, enum backend_death death)
{
    b->death = death;
    if (syscall(SYS_pidfd_send_signal, fdwatch_fd(b->watch), SIGKILL, NULL, 0) != 0)
        log_error("oci.kill_failed", LF_HEX("box", b->entry.id), LF_STR("reason", strerror(errno)));
}

/* A box without the network it was leased with, or in which no socket can be made any more, is of no use to its owner,
 * who would not know why. Its death is seen as any other. What serves a box ends when the box does, sometimes sooner
 * than its init is gone. */
static void end_alone(struct oci_box *b, enum oci_beside which)
{
    if (b->entry.state != BOX_RUNNING || b->watch == NULL || has_ended(b->watch) ||
        oci_is_exiting(b->pid))
        return;
    log_warn(which == OCI_BESIDE_GUARD ? "oci.guard_ended" : "oci.network_ended",
             LF_HEX("box", b->entry.id));
    oci_box_end(b, which == OCI_BESIDE_GUARD ? BACKEND_DEATH_UNGUARDED : BACKEND_DEATH_NETLESS);
}

static void on_beside_end(void *ctx)
{
    struct oci_beside_watch *w = ctx;

    fdwatch_free(w->watch);
    w->watch = NULL;
    end_alone(w->box, (enum oci_beside)(w - w->box->beside));
}

int oci_box_watch(struct oci_box *b, struct oci_found *f, struct err *err)
{
    int rc = fdwatch_new(b->oci->loop, TAKE_FD(f->pid_fd), on_death, b, &b->watch, err);

    for (size_t i = 0; rc == SP_OK && i < OCI_BESIDE_COUNT; i++) {
        b->beside[i].box = b;
        if (f->beside_fds[i] >= 0)
            rc = fdwatch_new(b->oci->loop, TAKE_FD(f->beside_fds[i]), on_beside_end, &b->beside[i],
                             &b->beside[i].watch, err);
    }
    if (rc != SP_OK)
        return rc;
    b->pid = f->pid;
    free(b->egress);
    b->egress = TAKE_PTR(f->egress);
    b->has_local = f->has_local;
    boxes_set(&b->entry, BOX_RUNNING);
    for (size_t i = 0; i < OCI_BESIDE_COUNT; i++)
        if (f->is_alone[i])
            end_alone(b, (enum oci_beside) i);
    return SP_OK;
}

void oci_box_adopt(struct oci *o, struct oci_found *f)
{
    struct oci_box *b;
    uint64_t slot;
    struct err err;

    if (!f->is_running || f->is_unsettled || oci_box_find(o, f->id) != NULL)
        return;
    b = oci_box_add(o, f->id, BOX_DEAD);
    b->runtime = oci_runtime_by_path(o, f->record.runtime);
    slot = (f->record.id_base - o->id_base) / OCI_ID_COUNT;
    if (f->record.id_base >= o->id_base && slot < o->id_slots &&
        !has_bit(o->id_used, (uint32_t) slot))
        use_slot(b, (uint32_t) slot);
    b->snapshot = f->record.snapshot;
    b->is_durable = f->record.is_durable;
    oci_snapshot_use(o, b->snapshot);
    if (oci_box_watch(b, f, &err) != SP_OK) {
        log_error("oci.watch_failed", LF_HEX("box", f->id), LF_STR("reason", err.msg));
        oci_box_drop(b); /* the next look tries again */
    }
}
