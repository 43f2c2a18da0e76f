/* table.c - the boxes in memory: which exist, which user ids they have, and the pidfd that tells of
 * their death. Small on purpose: what a box is like stays in its box.json. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "oci/internal.h"

static bool has_id(const struct map_node *node, const void *key)
{
    return container_of(node, const struct oci_box, node)->id == *(const uint64_t *) key;
}

struct oci_box *oci_box_find(struct oci *o, uint64_t id)
{
    struct map_node *n = map_find(&o->boxes, hash_u64(id), has_id, &id);

    return n != NULL ? container_of(n, struct oci_box, node) : NULL;
}

struct oci_box *oci_box_add(struct oci *o, uint64_t id, enum oci_state state)
{
    struct oci_box *b = xcalloc(1, sizeof(*b));

    assert(oci_box_find(o, id) == NULL);
    b->oci = o;
    b->id = id;
    b->state = state;
    b->id_slot = UINT32_MAX;
    list_init(&b->joiners);
    list_init(&b->removers);
    map_insert(&o->boxes, &b->node, hash_u64(id));
    list_push_back(&o->box_list, &b->link);
    return b;
}

void oci_box_drop(struct oci_box *b)
{
    struct oci *o = b->oci;

    assert(list_is_empty(&b->joiners) && list_is_empty(&b->removers));
    if (b->id_slot != UINT32_MAX)
        o->id_used[b->id_slot / 8] &= (uint8_t) ~(1U << (b->id_slot % 8));
    fdwatch_free(b->watch);
    fdwatch_free(b->net_watch);
    map_remove(&o->boxes, &b->node);
    list_remove(&o->box_list, &b->link);
    free(b);
}

static bool is_used(const struct oci *o, uint32_t slot)
{
    return (o->id_used[slot / 8] & (1U << (slot % 8))) != 0;
}

static void use_slot(struct oci_box *b, uint32_t slot)
{
    b->id_slot = slot;
    b->oci->id_used[slot / 8] |= (uint8_t) (1U << (slot % 8));
}

bool oci_take_ids(struct oci_box *b, uint32_t *ret_base)
{
    struct oci *o = b->oci;

    if (o->is_rootless) {
        *ret_base = 0;
        return true;
    }
    /* The longest unused first: whatever an old box left behind has had time to go. */
    for (uint32_t i = 0; i < o->id_slots; i++) {
        uint32_t slot = (o->id_next + i) % o->id_slots;

        if (is_used(o, slot))
            continue;
        use_slot(b, slot);
        o->id_next = (slot + 1) % o->id_slots;
        *ret_base = (uint32_t) (o->id_base + (uint64_t) slot * OCI_ID_COUNT);
        return true;
    }
    return false;
}

static void on_death(void *ctx)
{
    struct oci_box *b = ctx;
    const struct backend_events *events = b->oci->events;

    fdwatch_free(b->watch);
    b->watch = NULL;
    if (b->state != OCI_RUNNING)
        return;
    b->state = OCI_DEAD;
    if (events != NULL && b->is_netless && events->on_netless != NULL)
        events->on_netless(events->ctx, b->id);
    else if (events != NULL && events->on_died != NULL)
        events->on_died(events->ctx, b->id, "its init has ended");
}

static bool has_ended(const struct fdwatch *watch)
{
    struct pollfd p = {.fd = fdwatch_fd(watch), .events = POLLIN};

    return poll(&p, 1, 0) != 0;
}

/* A box without the network it was leased with is of no use to its owner, who would not know why. Its death is seen as
 * any other. */
static void end_netless(struct oci_box *b)
{
    if (b->state != OCI_RUNNING || b->watch == NULL || has_ended(b->watch))
        return; /* both end when the box does */
    log_warn("oci.network_ended", LF_HEX("box", b->id));
    b->is_netless = true;
    if (syscall(SYS_pidfd_send_signal, fdwatch_fd(b->watch), SIGKILL, NULL, 0) != 0)
        log_error("oci.kill_failed", LF_HEX("box", b->id), LF_STR("reason", strerror(errno)));
}

static void on_network_end(void *ctx)
{
    struct oci_box *b = ctx;

    fdwatch_free(b->net_watch);
    b->net_watch = NULL;
    end_netless(b);
}

int oci_box_watch(struct oci_box *b, struct oci_found *f, struct err *err)
{
    int rc = fdwatch_new(b->oci->loop, TAKE_FD(f->pid_fd), on_death, b, &b->watch, err);

    if (rc == SP_OK && f->net_fd >= 0)
        rc = fdwatch_new(b->oci->loop, TAKE_FD(f->net_fd), on_network_end, b, &b->net_watch, err);
    if (rc != SP_OK)
        return rc;
    b->pid = f->pid;
    b->state = OCI_RUNNING;
    if (f->is_netless)
        end_netless(b);
    return SP_OK;
}

void oci_box_adopt(struct oci *o, struct oci_found *f)
{
    struct oci_box *b;
    uint64_t slot;
    struct err err;

    if (!f->is_running || f->is_unsettled || oci_box_find(o, f->id) != NULL)
        return;
    b = oci_box_add(o, f->id, OCI_DEAD);
    b->runtime = oci_runtime_by_path(o, f->record.runtime);
    slot = (f->record.id_base - o->id_base) / OCI_ID_COUNT;
    if (f->record.id_base >= o->id_base && slot < o->id_slots && !is_used(o, (uint32_t) slot))
        use_slot(b, (uint32_t) slot);
    if (oci_box_watch(b, f, &err) != SP_OK) {
        log_error("oci.watch_failed", LF_HEX("box", f->id), LF_STR("reason", err.msg));
        oci_box_drop(b); /* the next look tries again */
    }
}
