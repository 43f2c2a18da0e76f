/* journal.c - ring of the newest events. A subscriber that falls behind the ring misses events and
 * can see it from the ids; the ring never waits for anybody. */
#include "engine/journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

void journal_init(struct journal *j)
{
    memset(j, 0, sizeof(*j));
    j->next_id = 1;
    list_init(&j->subscribers);
}

void journal_fini(struct journal *j)
{
    for (size_t i = 0; i < JOURNAL_SIZE; i++)
        free(j->ring[i].body);
    memset(j->ring, 0, sizeof(j->ring));
}

static struct journal_event *put(struct journal *j, uint64_t id, uint64_t at_ms, const char *kind,
                                 char *body, uint64_t principal)
{
    struct journal_event *ev = &j->ring[id % JOURNAL_SIZE];

    free(ev->body);
    ev->id = id;
    ev->at_ms = at_ms;
    str_copy_cut(ev->kind, sizeof(ev->kind), kind);
    ev->body = body;
    ev->principal = principal;
    j->next_id = id + 1;
    return ev;
}

static void notify_subscribers(struct journal *j)
{
    struct list_node *n = list_first(&j->subscribers);

    while (n != NULL) {
        struct journal_subscriber *s = container_of(n, struct journal_subscriber, link);

        n = list_next(&j->subscribers, n); /* the subscriber may leave from its callback */
        s->on_event(s);
    }
}

void journal_wake(struct journal *j)
{
    notify_subscribers(j);
}

void journal_close(struct journal *j)
{
    j->is_closed = true;
    notify_subscribers(j);
}

void journal_open(struct journal *j)
{
    j->is_closed = false;
}

const struct journal_event *journal_add(struct journal *j, uint64_t at_ms, const char *kind,
                                        char *body, uint64_t principal)
{
    struct journal_event *ev = put(j, j->next_id, at_ms, kind, body, principal);

    notify_subscribers(j);
    return ev;
}

void journal_restore(struct journal *j, uint64_t id, uint64_t at_ms, const char *kind,
                     const char *body, uint64_t principal)
{
    (void) put(j, id, at_ms, kind, xstrdup(body[0] == '{' ? body : "{}"), principal);
}

void journal_skip(struct journal *j)
{
    if (j->next_id > 1)
        j->next_id += JOURNAL_SIZE;
}

const struct journal_event *journal_get(const struct journal *j, uint64_t id)
{
    const struct journal_event *ev = &j->ring[id % JOURNAL_SIZE];

    return id != 0 && ev->id == id ? ev : NULL;
}

uint64_t journal_newest(const struct journal *j)
{
    return j->next_id - 1;
}

uint64_t journal_first_from(const struct journal *j, uint64_t id)
{
    uint64_t first = j->next_id;

    for (size_t i = 0; i < JOURNAL_SIZE; i++) /* holes may be wider than the ring */
        if (j->ring[i].id >= MAX_OF(id, 1U) && j->ring[i].id < first)
            first = j->ring[i].id;
    return first;
}

void journal_subscribe(struct journal *j, struct journal_subscriber *s)
{
    list_push_back(&j->subscribers, &s->link);
}

void journal_unsubscribe(struct journal *j, struct journal_subscriber *s)
{
    list_remove(&j->subscribers, &s->link);
}
