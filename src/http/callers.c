/* callers.c - which connection is whose, and how many one caller may have. Of the connections it has
 * and those that are free a caller may use a part only, so nobody can keep another out. Guests, who were
 * lent the address of one box, have a part of the connections together: the rest is kept for those who
 * have a key. When theirs are used up, idle connections of the guest with the most make way. */
#include <stdlib.h>

#include "base/mem.h"
#include "http/conn.h"

static bool is_caller(const struct map_node *node, const void *key)
{
    return container_of(node, struct caller, node)->who == *(const uint64_t *) key;
}

static struct caller *caller_find(const struct http_server *s, uint64_t who)
{
    struct map_node *n = map_find(&s->callers, hash_u64(who), is_caller, &who);

    return n != NULL ? container_of(n, struct caller, node) : NULL;
}

static void leave_caller(struct conn *c)
{
    struct caller *caller = c->caller;

    c->caller = NULL;
    if (caller == NULL)
        return;
    caller->open -= c->phase != CONN_CLOSED ? 1 : 0;
    caller->held -= c->held;
    c->server->guests_open -= caller->is_guest && c->phase != CONN_CLOSED ? 1 : 0;
    caller->refs--;
    if (caller->refs > 0)
        return;
    map_remove(&c->server->callers, &caller->node);
    free(caller);
}

size_t callers_tcp_part(const struct http_server *s, size_t max)
{
    if (s->has_unix && s->limits.share_percent > 0)
        max = max * s->limits.share_percent / 100;
    return MAX_OF(max, (size_t) 1);
}

/* Connections that are free, or its own. */
static size_t room_for(const struct conn *c)
{
    const struct http_server *s = c->server;
    size_t max = s->limits.max_connections;
    size_t room = rest_of(max, s->conns.len - 1); /* it is among them */

    if (!c->peer.is_tcp)
        return room;
    return MIN_OF(room, rest_of(callers_tcp_part(s, max), s->tcp_open - 1));
}

/* The same for a guest: what guests leave to others is not free. */
static size_t room_for_guest(const struct conn *c)
{
    const struct http_server *s = c->server;
    size_t max = (size_t) s->limits.max_connections * s->limits.share_percent / 100;

    return MIN_OF(room_for(c), rest_of(MAX_OF(max, (size_t) 1), s->guests_open));
}

static bool is_over_share(const struct http_server *s, uint64_t own, size_t room)
{
    return s->limits.share_percent > 0 && own * 100 >= (own + room) * s->limits.share_percent;
}

static void enter(struct conn *c, struct caller *caller, uint64_t who, bool is_guest)
{
    leave_caller(c);
    if (caller == NULL) {
        caller = xcalloc(1, sizeof(*caller));
        caller->who = who;
        caller->is_guest = is_guest;
        turns_init_share(&caller->share);
        map_insert(&c->server->callers, &caller->node, hash_u64(who));
    }
    caller->refs++;
    caller->open++;
    caller->held += c->held;
    c->server->guests_open += caller->is_guest ? 1 : 0;
    c->caller = caller;
}

bool callers_enter(struct conn *c, uint64_t who)
{
    struct caller *caller = caller_find(c->server, who);

    if (c->phase == CONN_CLOSED || (c->caller != NULL && c->caller == caller))
        return true;
    if (is_over_share(c->server, caller != NULL ? caller->open : 0, room_for(c)))
        return false;
    enter(c, caller, who, false);
    return true;
}

/* Nobody works for it: it waits for a request, or that has not come whole. */
static bool is_idle(const struct conn *c)
{
    return c->phase == CONN_OPEN && !c->is_running && !conn_is_sending(c) &&
           (c->ex == NULL || (c->ex->input == EXCHANGE_HEAD && !c->ex->is_ended));
}

bool callers_make_way(struct http_server *s, const struct caller *own)
{
    size_t least = own != NULL ? own->open : 0;
    struct conn *found = NULL;

    if (s->guests_open == 0)
        return false;
    for (struct list_node *n = list_first(&s->conns); n != NULL; n = list_next(&s->conns, n)) {
        struct conn *c = container_of(n, struct conn, link);
        const struct caller *caller = c->caller;

        if (caller == NULL || !caller->is_guest || (caller != own && caller->open <= least))
            continue;
        if ((found == NULL || caller->open > found->caller->open) && is_idle(c))
            found = c;
    }
    if (found == NULL)
        return false;
    conn_close(found);
    return true;
}

static bool enter_guest(struct conn *c, uint64_t who)
{
    struct http_server *s = c->server;
    struct caller *caller = caller_find(s, who);

    if (c->phase == CONN_CLOSED || (c->caller != NULL && c->caller == caller))
        return true;
    if (is_over_share(s, caller != NULL ? caller->open : 0, room_for_guest(c)) &&
        !callers_make_way(s, caller))
        return false;
    enter(c, caller_find(s, who), who, true); /* it may have had the one that made way */
    return true;
}

void callers_add(struct conn *c)
{
    struct http_server *s = c->server;

    c->is_counted = true;
    s->tcp_open += c->peer.is_tcp ? 1 : 0;
    if (s->config.wants_proof && !c->is_proven)
        list_push_back(&s->unproven, &c->unproven_link);
}

void callers_remove(struct conn *c)
{
    struct http_server *s = c->server;

    if (c->caller != NULL) {
        c->caller->open--;
        s->guests_open -= c->caller->is_guest ? 1 : 0;
    }
    if (!c->is_counted)
        return;
    s->tcp_open -= c->peer.is_tcp ? 1 : 0;
    list_remove(&s->unproven, &c->unproven_link);
}

/* What it holds counts until it is free: many that are closed at once may hold much. */
void callers_forget(struct conn *c)
{
    c->is_counted = false;
    held_count(c);
    leave_caller(c);
}

static void prove(struct conn *c)
{
    c->is_proven = true;
    list_remove(&c->server->unproven, &c->unproven_link);
}

void http_prove(struct http_exchange *ex)
{
    leave_caller(ex->conn);
    prove(ex->conn);
}

void http_prove_as(struct http_exchange *ex, uint64_t who)
{
    ex->is_over_share = !callers_enter(ex->conn, who);
    if (!ex->is_over_share)
        prove(ex->conn);
}

void http_prove_guest(struct http_exchange *ex, uint64_t who)
{
    if (enter_guest(ex->conn, who))
        prove(ex->conn);
}
