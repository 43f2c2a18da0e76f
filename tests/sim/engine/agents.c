/* agents.c - the programs in the boxes, called over HTTP, in place of src/loop/httpc.c: is it
 * ready, which start of it is this, is anything at work? They answer, are silent, or are not
 * there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "box/life.h"
#include "loop/httpc.h"
#include "walk.h"

struct talk {
    struct rt_timer timer;
    struct httpc_request *request;
};

enum { SILENCE = -1, REFUSED = 0 };

static struct walk_box *box_at(const char *url)
{
    for (size_t i = walk.box_count; i > 0; i--) {
        struct walk_box *b = &walk.boxes[i - 1];
        size_t len = strlen(b->url);

        if (strncmp(b->url, url, len) == 0 && url[len] == '/')
            return b;
    }
    walk_fail("a box is asked that never existed");
}

/* A box that gets the token of another box could use that box. */
static void judge_token(const struct httpc_request *r, const struct walk_box *b)
{
    static const char name[] = "Authorization: Bearer ";

    for (size_t i = 0; r->headers != NULL && r->headers[i] != NULL; i++)
        if (strncmp(r->headers[i], name, strlen(name)) == 0 &&
            strcmp(r->headers[i] + strlen(name), b->token) != 0)
            walk_fail("a box was sent the token of another one");
}

static int answer_ready(struct httpc_request *r, const struct walk_box *b)
{
    char life[BACKEND_LIFE_MAX + 1];

    if (walk_now() < b->ready_ns)
        return 503;
    boxes_put_life(b, life);
    if (r->want_headers && b->labels.box_id % 4 != 0)
        buf_printf(&r->response_headers, "X-Sandbox-Life: %s\n", life);
    return 200;
}

static int answer_use(struct httpc_request *r, struct walk_box *b)
{
    if (b->has_no_agent)
        return 404;
    b->silent_ns = 0;
    buf_printf(&r->response, "{\"busy\": %s, \"idle_ms\": %llu}", b->is_at_work ? "true" : "false",
               (unsigned long long) ((walk_now() - b->worked_ns) / NS_PER_MS));
    return 200;
}

/* SILENCE until the deadline; REFUSED: nothing listens there. */
static int answer(struct httpc_request *r)
{
    struct walk_box *b = box_at(r->url);
    const char *path = strchr(r->url + strlen("http://"), '/');
    bool is_use = strcmp(path, "/v1/agent/activity") == 0;

    judge_token(r, b);
    if (is_use && b->silent_ns == 0)
        b->silent_ns = walk_now();
    if (!b->is_running)
        return walk_one_in(3) ? SILENCE : REFUSED;
    if (b->is_stopped || walk_chance(4))
        return SILENCE;
    if (walk_chance(3))
        return REFUSED;
    if (is_use)
        return answer_use(r, b);
    if (strcmp(path, "/v1/agent/env?set=1") == 0) {
        sides_answer(b, &r->response);
        return 200;
    }
    if (strcmp(path, LIFE_PATH) == 0)
        return 404;
    return answer_ready(r, b);
}

static void end(struct talk *t, int result)
{
    struct httpc_request *r = t->request;

    rt_timer_cancel(&walk.rt, &t->timer);
    r->easy = NULL;
    free(t);
    op_finish(&r->op, result, NULL);
}

static void on_answer(struct rt_timer *timer)
{
    struct talk *t = container_of(timer, struct talk, timer);
    struct httpc_request *r = t->request;
    int status = walk.is_frozen ? REFUSED : answer(r);

    if (status == REFUSED) {
        end(t, SP_CONNECT_FAILED);
    } else if (status != SILENCE) {
        r->status = status;
        end(t, SP_OK);
    }
}

static void on_cancel(struct op *op)
{
    struct httpc_request *r = container_of(op, struct httpc_request, op);

    end(r->easy, SP_CANCELLED);
}

void httpc_start(struct httpc *c UNUSED, struct httpc_request *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct talk *t = xcalloc(1, sizeof(*t));

    t->request = r;
    r->easy = t;
    buf_init(&r->response, r->response_max);
    buf_init(&r->response_headers, 4096);
    op_begin(&r->op, &walk.loop.rt, NULL, deadline_ns, on_cancel, on_done);
    rt_timer_set(&walk.rt, &t->timer, walk_now() + rand_below(&walk.rand, WALK_PROBE_NS / 2),
                 on_answer);
}

void httpc_request_fini(struct httpc_request *r)
{
    buf_fini(&r->response);
    buf_fini(&r->response_headers);
}
