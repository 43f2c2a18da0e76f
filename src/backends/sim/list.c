/* list.c - all boxes of this instance, in parts, as pages of an engine come. */
#include <stdlib.h>
#include <string.h>

#include "backends/sim/internal.h"
#include "base/mem.h"
#include "sim/wire.h"

enum { LIST_PART = 512 }; /* boxes that are listed in one turn of the loop */

/* --- the machine in this process --- */

struct sim_listing {
    struct rt_timer timer; /* the next part */
    struct sim *sim;
    struct backend_list *list;
    size_t cursor;
};

static void end_list(struct sim_listing *l, int rc, const struct err *err)
{
    struct sim *s = l->sim;
    struct backend_list *r = l->list;

    rt_timer_cancel(s->rt, &l->timer);
    free(l);
    r->priv = NULL;
    if (rc != SP_OK)
        backend_list_fini(r);
    sim_finish(s, &r->op, rc, err);
}

static void on_list_cancel(struct op *op)
{
    end_list(container_of(op, struct backend_list, op)->priv, SP_CANCELLED, NULL);
}

static void list_part(struct sim_listing *l);

static void on_list_timer(struct rt_timer *timer)
{
    list_part(container_of(timer, struct sim_listing, timer));
}

/* Boxes that are made meanwhile may be in it or not; they are younger than the listing. */
static void list_part(struct sim_listing *l)
{
    struct sim *s = l->sim;
    struct backend_list *r = l->list;
    const struct world_box *box = NULL;
    struct err err;

    if (!backend_list_reserve(r, r->count + LIST_PART)) {
        end_list(l, err_set(&err, SP_NO_MEMORY, "no memory for a list of boxes"), &err);
        return;
    }
    for (size_t i = 0; i < LIST_PART; i++) {
        box = world_next(&s->world, &l->cursor);
        if (box == NULL)
            break;
        if (strcmp(world_box_text(box, WORLD_INSTANCE), s->instance) == 0 &&
            sim_fill_box(box, &r->boxes[r->count]))
            r->count++;
    }
    if (box == NULL)
        end_list(l, SP_OK, NULL);
    else
        rt_timer_set(s->rt, &l->timer, rt_after(rt_now(s->rt), NS_PER_MS), on_list_timer);
}

void sim_list(struct backend *b, struct backend_list *r, uint64_t deadline_ns,
              void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    struct sim_listing *l = xcalloc(1, sizeof(*l));

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, on_list_cancel, on_done);
    r->count = 0;
    r->cap = 0;
    r->boxes = NULL;
    r->priv = l;
    l->sim = s;
    l->list = r;
    list_part(l);
}

/* --- sandpool-sim --- */

static void on_call_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_list, op)->priv);
}

static int add_page(struct sim_call *c, struct backend_list *r, const struct json *boxes,
                    struct err *err)
{
    size_t count = json_len(boxes);

    if (!json_is_arr(boxes) || count > WIRE_PAGE || r->count + count > WORLD_BOXES_MAX)
        return err_set(err, SP_PROTOCOL, "sandpool-sim's answer is not a page of boxes");
    if (count == 0)
        return SP_OK;
    if (!backend_list_reserve(r, r->count + count))
        return err_set(err, SP_NO_MEMORY, "no memory for a list of boxes");
    for (size_t i = 0; i < count; i++) {
        struct backend_box *box = &r->boxes[r->count];
        int rc = sim_call_get(json_at(boxes, i), box, err);

        if (rc != SP_OK)
            return rc;
        if (strcmp(box->labels.instance, c->host->instance) == 0)
            r->count++;
    }
    return SP_OK;
}

static void send_list(struct sim_call *c, uint64_t cursor)
{
    buf_reset(&c->url);
    buf_printf(&c->url, "http://localhost/boxes?cursor=%llu", (unsigned long long) cursor);
    sim_call_send(c, "GET");
}

static void on_page(struct sim_call *c)
{
    struct backend_list *r = container_of(c->op, struct backend_list, op);
    uint64_t cursor = 0;
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 200, &doc, &err);

    if (rc == SP_OK)
        rc = add_page(c, r, json_get(json_root(doc), "boxes"), &err);
    if (rc == SP_OK)
        rc = json_field_u64(json_root(doc), "cursor", 1, WORLD_BOXES_MAX, &cursor, &err);
    (void) json_doc_free(doc);
    if (rc == SP_OK && cursor > 0 && c->op->state == OP_RUNNING) {
        send_list(c, cursor);
        return;
    }
    if (rc == SP_OK && cursor > 0)
        rc = err_set(&err, SP_CANCELLED, "the list is not complete");
    if (rc != SP_OK)
        backend_list_fini(r);
    sim_call_end(c, rc, &err);
}

void sim_host_list(struct backend *b, struct backend_list *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(sim_host_of(b), &r->op, deadline_ns, on_call_cancel, on_done, on_page);

    r->priv = c;
    r->boxes = NULL;
    r->count = 0;
    r->cap = 0;
    send_list(c, 0);
}
