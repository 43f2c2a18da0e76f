/* conn_wait.c - what a connection waits for, how long it may, and what happens when that is over. */
#include "http/conn.h"

static void on_timer(struct rt_timer *timer);

static uint64_t timeout_of(const struct conn *c, enum conn_wait wait)
{
    const struct http_limits *l = &c->server->limits;

    switch (wait) {
    case CONN_WAIT_IDLE:
        return list_is_linked(&c->unproven_link) ? MIN_OF(l->idle_timeout_ms, l->header_timeout_ms)
                                                 : l->idle_timeout_ms;
    case CONN_WAIT_HEAD:
        return l->header_timeout_ms;
    case CONN_WAIT_TURN:
        return 1;
    case CONN_WAIT_BODY: /* body_left_ns */
    case CONN_WAIT_WRITE:
        return l->write_timeout_ms;
    case CONN_WAIT_LINGER:
        return CONN_LINGER_MS;
    case CONN_WAIT_NONE:
    case CONN_WAIT_COUNT:
        break;
    }
    return 0;
}

void conn_charge_body(struct conn *c, size_t came)
{
    struct http_exchange *ex = c->ex;
    uint64_t max_ns = c->server->limits.header_timeout_ms * NS_PER_MS;
    uint64_t now_ns = rt_now(&c->server->loop->rt);
    uint64_t took_ns = now_ns - ex->body_since_ns;

    ex->body_since_ns = now_ns;
    ex->body_left_ns -= MIN_OF(took_ns, ex->body_left_ns);
    ex->body_left_ns = MIN_OF(ex->body_left_ns + came * (NS_PER_S / HTTP_BODY_RATE), max_ns);
}

/* Waits for something else from now on. The timer itself is only moved when it would be late. */
static void set_wait(struct conn *c, enum conn_wait wait)
{
    struct rt *rt = &c->server->loop->rt;

    if (c->wait == CONN_WAIT_BODY && c->ex != NULL)
        conn_charge_body(c, 0);
    c->wait = wait;
    if (wait == CONN_WAIT_NONE) {
        c->deadline_ns = RT_NEVER;
        return;
    }
    c->deadline_ns = rt_after(rt_now(rt), timeout_of(c, wait) * NS_PER_MS);
    if (wait == CONN_WAIT_BODY) {
        c->ex->body_since_ns = rt_now(rt);
        c->deadline_ns = rt_after(rt_now(rt), c->ex->body_left_ns);
    }
    if (!heap_has(&c->timer.node) || c->timer.node.key > c->deadline_ns)
        rt_timer_set(rt, &c->timer, c->deadline_ns, on_timer);
}

static void on_timeout(struct conn *c)
{
    uint64_t taken;

    switch (c->wait) {
    case CONN_WAIT_HEAD:
        exchange_refuse(c->ex, SP_REQUEST_TIMEOUT, "the request headers did not arrive in time", 0);
        break;
    case CONN_WAIT_BODY:
        exchange_refuse(c->ex, SP_REQUEST_TIMEOUT,
                        "the request body did not arrive in time, or too slowly", 0);
        break;
    case CONN_WAIT_WRITE:
        taken = conn_taken(c);
        if (taken == c->taken_before)
            conn_close(c);
        break;
    case CONN_WAIT_IDLE:
    case CONN_WAIT_LINGER:
        conn_close(c);
        break;
    case CONN_WAIT_TURN:
        break;
    case CONN_WAIT_NONE:
    case CONN_WAIT_COUNT:
        return;
    }
    c->wait = CONN_WAIT_NONE;
    conn_run(c);
}

static void on_timer(struct rt_timer *timer)
{
    struct conn *c = container_of(timer, struct conn, timer);
    struct rt *rt = &c->server->loop->rt;

    if (c->deadline_ns <= rt_now(rt))
        on_timeout(c);
    else if (c->deadline_ns != RT_NEVER)
        rt_timer_set(rt, timer, c->deadline_ns, on_timer);
}

static enum conn_wait next_wait(const struct conn *c)
{
    if (c->phase == CONN_LINGER)
        return CONN_WAIT_LINGER;
    if (conn_is_sending(c))
        return CONN_WAIT_WRITE;
    if (conn_holds(c))
        return CONN_WAIT_NONE;
    if (conn_is_resting(c) || secure_waits_for_turn(c))
        return CONN_WAIT_TURN;
    if (c->ex == NULL)
        return CONN_WAIT_IDLE;
    switch (c->ex->input) {
    case EXCHANGE_HEAD:
        return CONN_WAIT_HEAD;
    case EXCHANGE_BODY:
        return c->ex->is_paused ? CONN_WAIT_NONE : CONN_WAIT_BODY;
    case EXCHANGE_DONE:
    case EXCHANGE_INPUT_COUNT:
        break;
    }
    return CONN_WAIT_NONE; /* the handler's turn; its own deadlines rule */
}

void conn_set_wait(struct conn *c)
{
    enum conn_wait wait = next_wait(c);

    if (wait == c->wait)
        return;
    if (wait == CONN_WAIT_WRITE)
        c->taken_before = conn_taken(c);
    set_wait(c, wait);
}
