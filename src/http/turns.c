/* turns.c - what one turn of the loop spends on requests and long answers is limited. A request that comes while there is
 * room is served at once. Otherwise it waits, and so do all that come behind it: each caller has a share with what waits
 * for it, in the order in which it came, and the shares are served round robin. So a caller with thousands of connections
 * and requests sent ahead gets as much as one with a single request. Operators on the Unix socket have room of their own.
 *
 * Counted are bytes of bodies and answers, because they stand for the time that they cost and give the same order on every
 * machine; each request counts TURN_LEAST at least. Long answers of a caller wait
 * beside its requests, and each kind gets half of what the caller gets. */
#include "http/conn.h"

enum {
    TURN_MAX =
        256 * 1024, /* bytes, in one turn of the loop and one lane; one request may go over */
    TURN_LEAST = 4 * 1024, /* what the shortest counts */
};

static void on_turn_task(struct rt_task *task);
static void on_turn_timer(struct rt_timer *timer);

void turns_init_share(struct share *share)
{
    list_init(&share->requests);
    list_init(&share->answers);
}

void turns_init(struct http_server *s)
{
    for (unsigned i = 0; i < LANE_COUNT; i++)
        list_init(&s->lanes[i].ring);
    turns_init_share(&s->operators);
    turns_init_share(&s->proven);
    turns_init_share(&s->strangers);
    list_init(&s->parked);
}

static enum lane_kind lane_of(const struct conn *c)
{
    return c->is_operator ? LANE_OPERATORS : LANE_OTHERS;
}

static struct share *share_of(struct conn *c)
{
    if (c->is_operator)
        return &c->server->operators;
    if (c->caller != NULL)
        return &c->caller->share;
    return c->is_proven ? &c->server->proven : &c->server->strangers;
}

static bool is_used_up(const struct http_server *s, const struct lane *lane)
{
    return effort_used(&lane->effort, s->loop->turn) >= TURN_MAX;
}

/* Where there is room the first is served before this turn ends. Otherwise the loop looks at its sockets first, without
 * sleeping: a timer that is due already. */
static void plan(struct http_server *s)
{
    struct rt *rt = &s->loop->rt;
    bool is_waiting = false;

    for (unsigned i = 0; i < LANE_COUNT; i++) {
        if (list_is_empty(&s->lanes[i].ring))
            continue;
        is_waiting = true;
        if (!is_used_up(s, &s->lanes[i])) {
            rt_defer(rt, &s->turn_task, on_turn_task);
            return;
        }
    }
    rt_undefer(rt, &s->turn_task);
    if (!is_waiting)
        rt_timer_cancel(rt, &s->turn_timer);
    else if (!heap_has(&s->turn_timer.node))
        rt_timer_set(rt, &s->turn_timer, rt_after(rt_now(rt), 1), on_turn_timer);
}

/* --- counting --- */

static void count(struct conn *c, size_t cost)
{
    effort_add(&c->server->lanes[lane_of(c)].effort, c->server->loop->turn, cost);
}

void http_add_work(struct http_exchange *ex, size_t bytes)
{
    count(ex->conn, bytes);
}

bool turns_have_room(const struct conn *c)
{
    const struct lane *lane = &c->server->lanes[lane_of(c)];

    return list_is_empty(&lane->ring) && !is_used_up(c->server, lane);
}

bool turns_has_begun(const struct http_exchange *ex)
{
    return ex->turn == ex->conn->server->loop->turn && ex->body.len <= TURN_LEAST;
}

void turns_go(struct http_exchange *ex, void (*go)(struct http_exchange *ex))
{
    struct conn *c = ex->conn;
    uint64_t sent_before = c->sent;
    size_t body = ex->is_owned ? 0 : ex->body.len;
    size_t least = !ex->is_owned && turns_has_begun(ex) ? 0 : TURN_LEAST;

    ex->turn = c->server->loop->turn;
    go(ex);
    count(c, MAX_OF(body + (size_t) (c->sent - sent_before), least));
}

/* --- waiting --- */

static void enter(struct http_exchange *ex)
{
    struct conn *c = ex->conn;
    struct share *share = share_of(c);

    ex->turn_share = share;
    ex->turn_list = ex->is_owned ? &share->answers : &share->requests;
    list_push_back(ex->turn_list, &ex->turn_link);
    if (!list_is_linked(&share->link))
        list_push_back(&c->server->lanes[lane_of(c)].ring, &share->link);
    plan(c->server);
}

void turns_wait(struct http_exchange *ex, void (*go)(struct http_exchange *ex))
{
    assert(!ex->is_ended && ex->on_turn == NULL);
    ex->on_turn = go;
    enter(ex);
}

void http_wait_turn(struct http_exchange *ex, void (*on_turn)(struct http_exchange *ex))
{
    turns_wait(ex, on_turn);
}

static bool is_share_empty(const struct share *share)
{
    return list_is_empty(&share->requests) && list_is_empty(&share->answers);
}

void turns_leave(struct http_exchange *ex)
{
    struct conn *c = ex->conn;

    if (ex->on_turn == NULL)
        return;
    ex->on_turn = NULL;
    list_remove(ex->turn_list, &ex->turn_link);
    if (ex->turn_share != NULL && is_share_empty(ex->turn_share))
        list_remove(&c->server->lanes[lane_of(c)].ring, &ex->turn_share->link);
    plan(c->server);
}

/* --- serving --- */

static void serve(struct http_exchange *ex)
{
    struct conn *c = ex->conn;
    void (*on_turn)(struct http_exchange * ex) = ex->on_turn;

    if (c->phase != CONN_OPEN) {
        ex->on_turn = NULL; /* its handler is notified */
        return;
    }
    if (!ex->is_owned && conn_holds(c)) { /* somebody else may serve it */
        ex->turn_share = NULL;
        ex->turn_list = &c->server->parked;
        list_push_back(ex->turn_list, &ex->turn_link);
        return;
    }
    ex->on_turn = NULL;
    if (ex->is_owned && !ex->is_begun && held_refuses(ex))
        return; /* the memory was free when the request came */
    turns_go(ex, on_turn);
}

static struct http_exchange *take_first(struct share *share)
{
    bool has_both = !list_is_empty(&share->requests) && !list_is_empty(&share->answers);
    struct list *from = &share->requests;

    if (!has_both)
        share->balance = 0;
    if (list_is_empty(&share->requests) || share->balance < 0)
        from = &share->answers;
    return container_of(list_pop_front(from), struct http_exchange, turn_link);
}

/* One of this share, and then it is the next one's turn. */
static void serve_share(struct http_server *s, struct lane *lane, struct share *share)
{
    struct http_exchange *ex = take_first(share);
    bool is_answer = ex->is_owned;
    size_t before = effort_used(&lane->effort, s->loop->turn);
    int64_t cost;

    if (!is_share_empty(share))
        list_push_back(&lane->ring, &share->link);
    serve(ex);
    cost = (int64_t) (effort_used(&lane->effort, s->loop->turn) - before);
    share->balance += is_answer ? cost : -cost;
}

/* One round. Before the next, those who were answered come back with what they have sent ahead: one connection gets as
 * much as many. */
static void serve_some(struct http_server *s)
{
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        struct lane *lane = &s->lanes[i];

        for (size_t n = lane->ring.len; n > 0 && !is_used_up(s, lane); n--)
            serve_share(s, lane, container_of(list_pop_front(&lane->ring), struct share, link));
    }
    plan(s);
}

static void on_turn_task(struct rt_task *task)
{
    serve_some(container_of(task, struct http_server, turn_task));
}

static void on_turn_timer(struct rt_timer *timer)
{
    serve_some(container_of(timer, struct http_server, turn_timer));
}

void turns_resume(struct http_server *s)
{
    struct list_node *n;

    while ((n = list_pop_front(&s->parked)) != NULL)
        enter(container_of(n, struct http_exchange, turn_link));
}
