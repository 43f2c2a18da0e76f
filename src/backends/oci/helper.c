/* helper.c - sandpool-helper as an operation. Only so many run at once: a burst of boxes must not
 * become a burst of processes. Removals have a share of their own, so that boxes are made while many
 * are being removed slowly; so have snapshots that are sent or received, which take as long as their caller does, and changes
 * of what a box may reach, which wait for each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/oci/internal.h"
#include "base/json.h"
#include "base/str.h"

static void start_next(struct oci *o);

static enum oci_turn turn_of(const struct oci_helper *h)
{
    if (strcmp(h->verb, "remove") == 0)
        return OCI_TURN_REMOVE;
    if (strcmp(h->verb, "egress") == 0)
        return OCI_TURN_NETWORK;
    return strcmp(h->verb, "pack") == 0 || strcmp(h->verb, "image") == 0 ||
                   strcmp(h->verb, "unpack") == 0
               ? OCI_TURN_MOVE
               : OCI_TURN_OTHER;
}

/* A process that was killed and that the kernel keeps (in an unlink, in a disk's queue) does nothing any
 * more: others may have its place. Not without a limit. */
static void give_up(struct oci *o, struct oci_helper *h)
{
    if (h->is_given_up || o->given_up == OCI_GIVEN_UP_MAX)
        return;
    h->is_given_up = true;
    o->given_up++;
    o->running[turn_of(h)]--;
    start_next(o);
}

static void on_child(struct op *op)
{
    struct oci_helper *h = container_of(op, struct oci_helper, child.op);
    struct oci *o = h->oci;
    struct err err = op->err;
    int rc = op->result;
    char name[32];

    if (h->is_given_up)
        o->given_up--;
    else
        o->running[turn_of(h)]--;
    h->exit_code = h->child.exit_code;
    if (rc == SP_OK && h->exit_code == 0) {
        h->answer = json_parse(buf_str(&h->child.out), h->child.out.len, CHILD_OUTPUT_MAX, &err);
        if (h->answer == NULL)
            rc = err_set(&err, SP_PROTOCOL, "sandpool-helper %s gave no answer", h->verb);
    } else if (rc == SP_OK) {
        (void) snprintf(name, sizeof(name), "sandpool-helper %s", h->verb);
        rc = child_explain(&h->child, name, &err);
    }
    child_fini(&h->child);
    op_finish(&h->op, rc, &err);
    start_next(o);
}

static void start(struct oci *o, struct oci_helper *h)
{
    o->running[turn_of(h)]++;
    if (h->limit_ns > 0)
        op_set_deadline(&h->op, rt_after(rt_now(&o->loop->rt), h->limit_ns));
    h->argv[0] = o->helper;
    h->argv[1] = h->verb;
    h->child.argv = h->argv;
    h->child.input = buf_str(&h->plan);
    h->child.input_len = h->plan.len;
    h->child.pass_fd = h->pass_fd;
    child_start(o->loop, &h->child, NULL, RT_NEVER, on_child); /* our own deadline cancels it */
}

static void start_next(struct oci *o)
{
    for (int turn = 0; turn < OCI_TURN_COUNT; turn++)
        while (o->running[turn] < OCI_HELPERS_MAX && !list_is_empty(&o->waiting[turn]))
            start(o, container_of(list_pop_front(&o->waiting[turn]), struct oci_helper, link));
}

static void on_cancel(struct op *op)
{
    struct oci_helper *h = container_of(op, struct oci_helper, op);

    if (list_is_linked(&h->link)) {
        list_remove(&h->oci->waiting[turn_of(h)], &h->link);
        op_finish(op, SP_CANCELLED, NULL);
    } else if (op_is_active(&h->child.op)) {
        op_cancel(&h->child.op);
        give_up(h->oci, h);
    }
}

void oci_helper_start(struct oci *o, struct oci_helper *h, uint64_t deadline_ns,
                      void (*on_done)(struct op *))
{
    h->oci = o;
    h->exit_code = -1;
    op_begin(&h->op, &o->loop->rt, &o->closing.inner, deadline_ns, on_cancel, on_done);
    list_push_back(&o->waiting[turn_of(h)], &h->link);
    start_next(o);
}

void oci_helper_fini(struct oci_helper *h)
{
    buf_fini(&h->plan);
    h->answer = json_doc_free(h->answer);
}

void oci_helper_cancel_waiting(struct oci *o)
{
    for (int turn = 0; turn < OCI_TURN_COUNT; turn++)
        while (!list_is_empty(&o->waiting[turn]))
            op_cancel(&container_of(list_first(&o->waiting[turn]), struct oci_helper, link)->op);
}
