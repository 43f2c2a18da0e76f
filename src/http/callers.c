/* callers.c - which connection is whose, and how many one caller may have. Of the connections it has
 * and those that are free a caller may use a part only, so nobody can keep another out. */
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
    size_t open = s->conns.len - 1; /* it is among them */
    size_t max = s->limits.max_connections;
    size_t room = max > open ? max - open : 0;

    if (!c->peer.is_tcp)
        return room;
    open = s->tcp_open - 1;
    max = callers_tcp_part(s, max);
    return MIN_OF(room, max > open ? max - open : 0);
}

bool callers_enter(struct conn *c, uint64_t who)
{
    struct http_server *s = c->server;
    struct caller *caller = caller_find(s, who);
    uint64_t own = caller != NULL ? caller->open : 0;

    if (c->phase == CONN_CLOSED || (c->caller != NULL && c->caller == caller))
        return true;
    if (s->limits.share_percent > 0 && own * 100 >= (own + room_for(c)) * s->limits.share_percent)
        return false;
    leave_caller(c);
    if (caller == NULL) {
        caller = xcalloc(1, sizeof(*caller));
        caller->who = who;
        turns_init_share(&caller->share);
        map_insert(&s->callers, &caller->node, hash_u64(who));
    }
    caller->refs++;
    caller->open++;
    caller->held += c->held;
    c->caller = caller;
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

    if (c->caller != NULL)
        c->caller->open--;
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

void http_prove(struct http_exchange *ex)
{
    struct conn *c = ex->conn;

    c->is_proven = true;
    list_remove(&c->server->unproven, &c->unproven_link);
}

void http_prove_as(struct http_exchange *ex, uint64_t who)
{
    ex->is_over_share = !callers_enter(ex->conn, who);
    if (!ex->is_over_share)
        http_prove(ex);
}
