/* list.h - counted intrusive list. An unlinked node is all zero, so membership is a question
 * one can ask and removing twice is harmless. A node does not know its list: whoever removes
 * it names the list, which keeps the count right. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

struct list_node {
    struct list_node *prev;
    struct list_node *next;
};

struct list {
    struct list_node head;
    size_t len;
};

static inline void list_init(struct list *l)
{
    l->head.prev = &l->head;
    l->head.next = &l->head;
    l->len = 0;
}

static inline bool list_is_linked(const struct list_node *n)
{
    return n->next != NULL;
}

static inline bool list_is_empty(const struct list *l)
{
    return l->len == 0;
}

static inline void list_insert_between(struct list *l, struct list_node *n, struct list_node *prev,
                                       struct list_node *next)
{
    assert(!list_is_linked(n));
    n->prev = prev;
    n->next = next;
    prev->next = n;
    next->prev = n;
    l->len++;
}

static inline void list_push_back(struct list *l, struct list_node *n)
{
    list_insert_between(l, n, l->head.prev, &l->head);
}

static inline void list_push_front(struct list *l, struct list_node *n)
{
    list_insert_between(l, n, &l->head, l->head.next);
}

static inline void list_remove(struct list *l, struct list_node *n)
{
    if (!list_is_linked(n))
        return;
    assert(l->len > 0);
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->prev = NULL;
    n->next = NULL;
    l->len--;
}

static inline struct list_node *list_first(const struct list *l)
{
    return list_is_empty(l) ? NULL : l->head.next;
}

static inline struct list_node *list_last(const struct list *l)
{
    return list_is_empty(l) ? NULL : l->head.prev;
}

static inline struct list_node *list_next(const struct list *l, const struct list_node *n)
{
    return n->next == &l->head ? NULL : n->next;
}

/* Written so that analyzers see that the head changes; list_remove() reaches it through the node only. */
static inline struct list_node *list_pop_front(struct list *l)
{
    struct list_node *n = l->head.next;

    if (list_is_empty(l))
        return NULL;
    l->head.next = n->next;
    n->next->prev = &l->head;
    n->prev = NULL;
    n->next = NULL;
    l->len--;
    return n;
}

static inline struct list_node *list_pop_back(struct list *l)
{
    struct list_node *n = l->head.prev;

    if (list_is_empty(l))
        return NULL;
    l->head.prev = n->prev;
    n->prev->next = &l->head;
    n->prev = NULL;
    n->next = NULL;
    l->len--;
    return n;
}

/* Moves everything from `from` to the empty list `to`, so that callbacks may add to `from`
 * while the caller walks `to`. */
static inline void list_move(struct list *from, struct list *to)
{
    list_init(to);
    if (from->len == 0)
        return;
    to->head = from->head;
    to->head.prev->next = &to->head;
    to->head.next->prev = &to->head;
    to->len = from->len;
    list_init(from);
}

#endif
