/* journal.h - the audit trail as seen from the loop: the newest events in a ring, subscribers that
 * follow it at their own pace, and each event handed on to be stored. */
#ifndef ENGINE_JOURNAL_H
#define ENGINE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

enum { JOURNAL_SIZE = 2048, JOURNAL_KIND_MAX = 31 };

struct journal_event {
    uint64_t id; /* from 1; a hole where the store lost events of an earlier run */
    uint64_t at_ms;
    char kind[JOURNAL_KIND_MAX + 1];
    char *body;         /* JSON object */
    uint64_t principal; /* who may see it beside operators; STORE_NOBODY: none */
};

struct journal {
    uint64_t next_id;
    struct journal_event ring[JOURNAL_SIZE];
    struct list subscribers;
    bool is_closed;
};

/* Notified after an event was added; reads on from its own position with journal_get(). */
struct journal_subscriber {
    struct list_node link;
    void (*on_event)(struct journal_subscriber *s);
};

void journal_init(struct journal *j);
void journal_fini(struct journal *j);
/* Takes `body` (from malloc) over. Returns the event, valid until the next one is added. */
const struct journal_event *journal_add(struct journal *j, uint64_t at_ms, const char *kind,
                                        char *body, uint64_t principal);
/* Boot: events of earlier runs, oldest first. A body that is no object is taken as an empty one. */
void journal_restore(struct journal *j, uint64_t id, uint64_t at_ms, const char *kind,
                     const char *body, uint64_t principal);
/* Boot after a crash: events that were shown may not have been stored. Their ids must not be given
 * out again, so the next one starts further on. Nothing happens in an empty journal. */
void journal_skip(struct journal *j);
/* NULL when it is not (or no longer) in the ring. */
const struct journal_event *journal_get(const struct journal *j, uint64_t id);
/* The first event in the ring from `id` on; journal_newest() + 1 when there is none. */
uint64_t journal_first_from(const struct journal *j, uint64_t id);
uint64_t journal_newest(const struct journal *j);

/* Nothing more will come: notifies every subscriber, who should leave. */
void journal_close(struct journal *j);
/* More will come after all. */
void journal_open(struct journal *j);

/* Notifies every subscriber, though nothing was added. */
void journal_wake(struct journal *j);

void journal_subscribe(struct journal *j, struct journal_subscriber *s);
void journal_unsubscribe(struct journal *j, struct journal_subscriber *s);

#endif
