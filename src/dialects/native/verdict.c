/* verdict.c - the connection of a call broke: is its box gone, or does it live? A box that dies closes its connections
 * before anybody knows of its death, so the backend and the box are asked until one of them is sure, for a few
 * seconds at most. The pool's own verdict, when it comes first, ends the call by box_proxy_cut(). */
#include <stdlib.h>

#include "base/mem.h"
#include "dialects/native/internal.h"

#define VERDICT_MAX_NS (5 * NS_PER_S)
#define PAUSE_NS (50 * NS_PER_MS)

struct judge {
    struct api *api;
    struct box_proxy_loss *loss; /* NULL: nobody waits for it any more */
    struct box_id box;
    struct rt_timer next;
    struct rt_timer limit;
    bool is_asking; /* the engine answers later, whatever happens */
};

static void ask(struct judge *j);

/* The engine may still have it: then it is freed by the answer. */
static void leave(struct judge *j)
{
    struct rt *rt = engine_rt(j->api->engine);

    j->loss = NULL;
    rt_timer_cancel(rt, &j->next);
    rt_timer_cancel(rt, &j->limit);
    if (!j->is_asking)
        free(j);
}

static void judge(struct judge *j, int code, const char *reason)
{
    struct box_proxy_loss *loss = j->loss;

    leave(j);
    box_proxy_judged(loss, code, reason);
}

static void on_limit(struct rt_timer *timer)
{
    judge(container_of(timer, struct judge, limit), SP_TRANSPORT_LOST,
          "the sandbox does not answer");
}

static void on_next(struct rt_timer *timer)
{
    ask(container_of(timer, struct judge, next));
}

static void on_answered(void *ctx, bool answers)
{
    struct judge *j = ctx;
    struct rt *rt = engine_rt(j->api->engine);

    j->is_asking = false;
    if (j->loss == NULL)
        free(j);
    else if (answers)
        judge(j, SP_TRANSPORT_LOST, "the sandbox lives");
    else
        rt_timer_set(rt, &j->next, rt_after(rt_now(rt), PAUSE_NS), on_next);
}

static void on_checked(void *ctx, enum pool_verdict verdict)
{
    struct judge *j = ctx;

    /* Absent: its backend does not know it, and it does not answer. The pool waits for more before it gives a box
     * up, but this call had its connection broken, too. */
    if (j->loss != NULL && verdict != POOL_DEAD && verdict != POOL_ABSENT &&
        pool_find_box(engine_pool(j->api->engine), j->box) != NULL) {
        engine_ask_box(j->api->engine, j->box, on_answered, j);
        return;
    }
    j->is_asking = false;
    if (j->loss == NULL)
        free(j);
    else
        judge(j, SP_SANDBOX_LOST, pool_end_name(POOL_END_DIED));
}

static void ask(struct judge *j)
{
    const struct pool_box *box = pool_find_box(engine_pool(j->api->engine), j->box);

    if (box == NULL || box->end != POOL_END_NONE) {
        judge(j, SP_SANDBOX_LOST, pool_end_name(box != NULL ? box->end : POOL_END_DIED));
        return;
    }
    j->is_asking = true;
    engine_check_box(j->api->engine, j->box, on_checked, j);
}

void api_ask_loss(void *ctx, struct box_proxy_loss *loss)
{
    struct api *api = ctx;
    struct rt *rt = engine_rt(api->engine);
    struct judge *j = xcalloc(1, sizeof(*j));

    j->api = api;
    j->loss = loss;
    j->box.v = loss->box;
    loss->judge = j;
    rt_timer_set(rt, &j->limit, rt_after(rt_now(rt), VERDICT_MAX_NS), on_limit);
    ask(j);
}

void api_drop_loss(void *ctx, struct box_proxy_loss *loss)
{
    (void) ctx;
    leave(loss->judge);
}
