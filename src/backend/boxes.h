/* boxes.h - the boxes of a backend in memory: which exist, in which state, and who waits for one of them. What else a
 * backend knows of a box stands around struct box_entry, in a struct of its own. */
#ifndef BACKEND_BOXES_H
#define BACKEND_BOXES_H

#include "backend/backend.h"
#include "backend/closing.h"
#include "backend/waiter.h"
#include "base/map.h"

enum box_state {
    BOX_MAKING,
    BOX_RUNNING,
    BOX_DEAD,     /* has ended, or was never whole; something of it may be left */
    BOX_REMOVING, /* one removal per box at a time */
    BOX_STATE_COUNT
};

struct boxes {
    struct closing *closing;
    struct map by_id;
    struct list all; /* struct box_entry */
};

struct box_entry {
    struct map_node node;
    struct list_node link;
    struct boxes *boxes;
    uint64_t id;
    enum box_state state;
    uint64_t since_ns;    /* of its state */
    struct list joiners;  /* struct waiter: creates of the same box that came second */
    struct list removers; /* struct remover */
};

/* Somebody who waits until a box is removed. */
struct remover {
    struct list_node link; /* in e->removers; whoever gives up takes it out */
    /* The box is gone from the table, or BOX_DEAD. `released` says what was. */
    void (*on_removed)(struct remover *w, int rc, const struct err *err,
                       const struct backend_released *released);
};

void boxes_init(struct boxes *b, struct closing *closing, size_t max);
/* The table must be empty. */
void boxes_fini(struct boxes *b);
struct box_entry *boxes_find(const struct boxes *b, uint64_t id);
/* `e` is zeroed memory of the caller's, and its id is not in the table. */
void boxes_add(struct boxes *b, struct box_entry *e, uint64_t id, enum box_state state);
void boxes_set(struct box_entry *e, enum box_state state);
/* Takes it out of the table; nobody waits for it any more. The memory is the caller's again. */
void boxes_drop(struct box_entry *e);

/* A destroy joins the removal of its box: begun with op_begin() here, finished when the box was removed. A caller that
 * leaves does not stop the removal. */
void boxes_destroy(struct box_entry *e, struct backend_destroy *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
/* A removal has ended: calls all in `removers`, which came from e->removers before e was dropped or set to BOX_DEAD. */
void boxes_removed(struct list *removers, int rc, const struct err *err,
                   const struct backend_released *released);

#endif
