/* turns.c - answers that are long or make much work. What they make in one turn of the loop together is limited; those that
 * are not begun by then, or not complete, wait for the next turn, in the order in which they asked. In between everybody
 * else is served: a short answer waits for one part of one long answer at most, however many are asked for. */
#include "http/conn.h"

enum {
    TURN_MAX = 256 * 1024, /* bytes, in one turn of the loop; one answer may go over */
    TURN_LEAST = 4 * 1024, /* what the shortest of them counts */
};

static void on_turn_task(struct rt_task *task);
static void on_turn_timer(struct rt_timer *timer);

static bool is_used_up(const struct http_server *s)
{
    return effort_used(&s->turn_effort, s->loop->turn) >= TURN_MAX;
}

/* Where there is room the first is served before this turn ends. Otherwise the loop looks at its sockets first, without
 * sleeping: a timer that is due already. */
static void plan(struct http_server *s)
{
    struct rt *rt = &s->loop->rt;

    if (list_is_empty(&s->turns)) {
        rt_timer_cancel(rt, &s->turn_timer);
        rt_undefer(rt, &s->turn_task);
    } else if (is_used_up(s)) {
        rt_timer_set(rt, &s->turn_timer, rt_after(rt_now(rt), 1), on_turn_timer);
    } else {
        rt_defer(rt, &s->turn_task, on_turn_task);
    }
}

static void serve(struct http_exchange *ex)
{
    struct conn *c = ex->conn;
    struct http_server *s = c->server;
    void (*on_turn)(struct http_exchange * ex) = ex->on_turn;
    uint64_t sent_before = c->sent;

    ex->on_turn = NULL;
    if (c->phase != CONN_OPEN)
        return; /* its handler is notified */
    if (!ex->is_begun && held_refuses(ex))
        return; /* the memory was free when the request came */
    on_turn(ex);
    effort_add(&s->turn_effort, s->loop->turn,
               MAX_OF((size_t) (c->sent - sent_before), (size_t) TURN_LEAST));
}

static void serve_some(struct http_server *s)
{
    while (!list_is_empty(&s->turns) && !is_used_up(s))
        serve(container_of(list_pop_front(&s->turns), struct http_exchange, turn_link));
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

void http_wait_turn(struct http_exchange *ex, void (*on_turn)(struct http_exchange *ex))
{
    struct http_server *s = ex->conn->server;

    assert(!ex->is_ended && ex->on_turn == NULL);
    ex->on_turn = on_turn;
    list_push_back(&s->turns, &ex->turn_link);
    plan(s);
}

void http_add_work(struct http_exchange *ex, size_t bytes)
{
    struct http_server *s = ex->conn->server;

    effort_add(&s->turn_effort, s->loop->turn, bytes);
}

void turns_leave(struct http_exchange *ex)
{
    if (ex->on_turn == NULL)
        return;
    ex->on_turn = NULL;
    list_remove(&ex->conn->server->turns, &ex->turn_link);
    plan(ex->conn->server);
}
