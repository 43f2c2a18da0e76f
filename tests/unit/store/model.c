/* model.c - see model.h. Written from the contract in store.h, without a look at the SQL. */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static const char *const ends[] = {"idle", "ttl", "died"};
static const char *const states[] = {"intent", "starting", "blank", "parked"};
static const char *const metas[MODEL_METAS] = {"m0", "m1", "m2", "m3"};

void script_init(struct script *s, uint64_t seed)
{
    *s = (struct script){.next = 1};
    rand_seed(&s->rand, seed);
}

static void fill_box(struct script *s, struct step *step, uint64_t number)
{
    struct store_box *box = &step->put.w.u.box;

    box->url = step->text;
    box->spec_hash = rand_next(&s->rand);
    box->generation = number;
    box->created_ms = number;
    (void) snprintf(step->text, sizeof(step->text), "http://127.0.0.1:%" PRIu64, number);
}

void script_next(struct script *s, struct step *ret)
{
    uint64_t number = s->next++;
    uint64_t box = 1 + rand_below(&s->rand, MODEL_BOXES);
    uint64_t id = rand_below(&s->rand, MODEL_IDS);
    uint64_t choice = rand_below(&s->rand, 10);

    *ret = (struct step){.at_ms = FIXTURE_WALL_MS + number};
    (void) snprintf(ret->sandbox_id, sizeof(ret->sandbox_id), "s%02u", (unsigned) id);
    if (choice < 2) {
        ret->put = put_box(box, states[rand_below(&s->rand, 4)]);
        fill_box(s, ret, number);
    } else if (choice < 5) {
        ret->put = put_lease(box, ret->sandbox_id, number);
        fill_box(s, ret, number);
    } else if (choice < 7) {
        bool is_owned = rand_below(&s->rand, 4) > 0;

        ret->put = put_deleting(box, is_owned ? ret->sandbox_id : "", ends[number % 3]);
        fill_box(s, ret, number);
    } else if (choice < 8) {
        ret->put = put_forget(box);
    } else if (choice < 9) {
        (void) snprintf(ret->text, sizeof(ret->text), "%" PRIu64, number);
        ret->put = put_meta(metas[id % MODEL_METAS], ret->text);
    } else {
        ret->put = put_event(++s->events);
    }
    ret->put.w.want_power = rand_below(&s->rand, 50) == 0;
}

void step_submit(struct fixture *f, struct step *step, void (*on_done)(struct op *))
{
    rt_advance(&f->rt, (step->at_ms - rt_wall_ms(&f->rt)) * NS_PER_MS);
    store_submit(f->store, &step->put.w, on_done);
}

void model_init(struct model *m)
{
    *m = (struct model){0};
}

static struct model_lease *lease_of(struct model *m, const char *sandbox_id)
{
    unsigned long i;

    if (sandbox_id == NULL || sandbox_id[0] == '\0')
        return NULL;
    i = strtoul(sandbox_id + 1, NULL, 10);
    assert_true(i < MODEL_IDS);
    return &m->leases[i];
}

static void end_lease(struct model *m, const char *sandbox_id, uint64_t box, const char *end,
                      uint64_t at_ms)
{
    struct model_lease *lease = lease_of(m, sandbox_id);

    if (lease == NULL || !lease->is_there || lease->box != box || lease->ended_ms != 0)
        return;
    lease->ended_ms = at_ms;
    str_copy_cut(lease->end, sizeof(lease->end), end);
}

static void keep_box(struct model *m, const struct step *step)
{
    const struct store_box *row = &step->put.w.u.box;
    struct model_box *box = &m->boxes[row->id - 1];
    bool is_bound = row->sandbox_id != NULL && row->sandbox_id[0] != '\0';
    const char *id = is_bound ? step->sandbox_id : "";

    if (box->is_there && strcmp(box->sandbox_id, id) != 0) /* it went on without its owner */
        end_lease(m, box->sandbox_id, row->id, "", step->at_ms);
    box->is_there = true;
    box->row = *row;
    str_copy_cut(box->text, sizeof(box->text), step->text);
    str_copy_cut(box->sandbox_id, sizeof(box->sandbox_id), id);
}

static void forget_box(struct model *m, const struct step *step)
{
    struct model_box *box = &m->boxes[step->put.w.u.box.id - 1];

    if (!box->is_there)
        return;
    end_lease(m, box->sandbox_id, box->row.id, box->row.end != NULL ? box->row.end : "",
              step->at_ms);
    box->is_there = false;
}

void model_apply(struct model *m, const struct step *step)
{
    const struct store_write *w = &step->put.w;

    switch (w->kind) {
    case STORE_PUT_BOX:
        keep_box(m, step);
        break;
    case STORE_PUT_LEASE:
        keep_box(m, step);
        *lease_of(m, step->sandbox_id) = (struct model_lease){
            .is_there = true, .generation = w->u.box.generation, .box = w->u.box.id};
        break;
    case STORE_DELETING:
        keep_box(m, step);
        end_lease(m, m->boxes[w->u.box.id - 1].sandbox_id, w->u.box.id, w->u.box.end, step->at_ms);
        break;
    case STORE_FORGET:
        forget_box(m, step);
        break;
    case STORE_PUT_META:
        m->metas[w->u.meta.key[1] - '0'] = strtoull(step->text, NULL, 10);
        break;
    case STORE_ADD_EVENT:
        assert_true(w->u.event.id == m->events + 1);
        m->events++;
        break;
    case STORE_READ_EVENTS:
    case STORE_READ_USAGE:
    case STORE_REPRICE:
    case STORE_BUDGET:
    case STORE_SAMPLE:
    case STORE_PUT_TOKEN:
    case STORE_DROP_TOKEN:
    case STORE_BACKUP:
    case STORE_KIND_COUNT:
        fail();
    }
}

static void print_box(struct buf *out, const struct store_box *box, const char *sandbox_id,
                      const char *url)
{
    buf_printf(out, "box %" PRIu64 " %s '%s' %s %" PRIx64 " %" PRIu64 " %s\n", box->id, box->state,
               sandbox_id, url, box->spec_hash, box->generation, box->end != NULL ? box->end : "");
}

static void print_past(struct buf *out, const char *id, uint64_t generation, const char *end,
                       uint64_t ended_ms)
{
    buf_printf(out, "past %s %" PRIu64 " %s %" PRIu64 "\n", id, generation, end, ended_ms);
}

/* Boxes by age, which no two share here. */
static void print_boxes(const struct model *m, struct buf *out)
{
    uint64_t after = 0;

    for (;;) {
        const struct model_box *next = NULL;

        for (size_t i = 0; i < MODEL_BOXES; i++) {
            const struct model_box *box = &m->boxes[i];

            if (box->is_there && box->row.created_ms > after &&
                (next == NULL || box->row.created_ms < next->row.created_ms))
                next = box;
        }
        if (next == NULL)
            return;
        after = next->row.created_ms;
        print_box(out, &next->row, next->sandbox_id, next->text);
    }
}

static void print_pasts(const struct model *m, struct buf *out)
{
    uint64_t after = 0;

    for (;;) {
        const struct model_lease *next = NULL;
        char id[16];

        for (size_t i = 0; i < MODEL_IDS; i++) {
            const struct model_lease *lease = &m->leases[i];

            if (lease->ended_ms > after && (next == NULL || lease->ended_ms < next->ended_ms))
                next = lease;
        }
        if (next == NULL)
            return;
        after = next->ended_ms;
        (void) snprintf(id, sizeof(id), "s%02u", (unsigned) (next - m->leases));
        print_past(out, id, next->generation, next->end, next->ended_ms);
    }
}

void model_print(const struct model *m, struct buf *out)
{
    for (size_t i = 0; i < MODEL_METAS; i++) {
        if (m->metas[i] != 0)
            buf_printf(out, "meta %s %" PRIu64 "\n", metas[i], m->metas[i]);
    }
    print_boxes(m, out);
    print_pasts(m, out);
    for (uint64_t id = 1; id <= m->events; id++)
        buf_printf(out, "event %" PRIu64 "\n", id);
    assert_false(buf_failed(out));
}

struct printer {
    struct buf *out;
};

static bool see_meta(void *ctx, const char *key, const char *value)
{
    struct printer *p = ctx;

    buf_printf(p->out, "meta %s %s\n", key, value);
    return true;
}

static bool see_box(void *ctx, const struct store_box *box)
{
    struct printer *p = ctx;

    print_box(p->out, box, box->sandbox_id, box->url);
    return true;
}

static bool see_past(void *ctx, const struct store_past *past)
{
    struct printer *p = ctx;

    print_past(p->out, past->sandbox_id, past->generation, past->end, past->ended_ms);
    return true;
}

static bool see_event(void *ctx, const struct store_event *event)
{
    struct printer *p = ctx;

    buf_printf(p->out, "event %" PRIu64 "\n", event->id);
    return true;
}

void model_print_store(struct fixture *f, struct buf *out)
{
    struct printer p = {.out = out};
    const struct store_reader reader = {.ctx = &p,
                                        .on_meta = see_meta,
                                        .on_box = see_box,
                                        .on_past = see_past,
                                        .on_event = see_event,
                                        .events_tail = UINT32_MAX};
    struct err err = {0};

    if (store_load(f->store, &reader, &err) != SP_OK)
        fail_msg("store_load: %s", err.msg);
    assert_false(buf_failed(out));
}
