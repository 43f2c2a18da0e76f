/* box.h - slots, and the one function that changes the state of a box. */
#ifndef POOL_BOX_H
#define POOL_BOX_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "pool/pool.h"

struct owner;

#define POOL_CHECK_NS (2 * NS_PER_S)

/* The lists a blank box can be on. */
enum blank_kind { BLANK_FRESH, BLANK_DRIFTED, BLANK_UNSEEN, BLANK_KIND_COUNT };

struct slot {
    struct pool_box box;
    struct list *list; /* the one its state names */
    struct list_node link;
    struct list_node dirty_link; /* row to be written: on p->dirty or p->rewrites */
    struct list_node doubt_link; /* to be asked for */
    struct list_node idle_link;  /* LEASED: its agent is to be asked whether it is idle */
    struct map_node by_id;
    struct map_node by_sandbox; /* linked while the id is bound to this box */
    struct map_node by_ref;     /* while the backend's name is known */
    struct map_node by_ending;  /* by the id it had */
    struct owner *owner;        /* while it has an owner, also one it is taken from */
    struct list_node owner_link;
    struct heap_node due;   /* next moment time alone changes it */
    struct heap_node evict; /* PARKED, by parked_ns */
    struct list waiters;    /* requests that wait for this box */
    uint64_t wait_write;    /* the commit its state waits for; 0: none */
    uint64_t last_write;
    unsigned open_writes;  /* not answered yet */
    uint64_t flush_write;  /* of those that count for POOL_FLUSH_MAX; 0: none */
    uint64_t retry_ns;     /* DESTROYING: next try */
    uint64_t rewrite_ns;   /* dirty: not written before */
    uint64_t changed_ns;   /* last state change */
    uint64_t age_ns;       /* BLANK: too old from here on */
    uint64_t saved_ns;     /* last activity that the store has, or is being given */
    uint64_t committed_ns; /* deadline in the row the store has */
    unsigned told;         /* LEASED: replies that name it and have not come back undelivered */
    uint64_t listing;      /* last listing that showed it */
    unsigned tries;        /* destroys that failed */
    enum pool_state lease_from; /* what an undone lease goes back to; FREE: discovered,
                                 * STARTING: made for it */
    enum pool_source source;
    bool is_asked;    /* an answer is owed to a create, probe or destroy; LEASED: by its agent */
    bool is_checking; /* the backend owes an answer to a check */
    bool is_made;     /* by this process: its failure counts against the profile */
    bool is_unheard;  /* its backend gave no word on its create: it may exist */
    bool is_missing;  /* the last clean listing did not show it, and nothing has since */
    bool is_asking;   /* the check is, or is also, because of that */
    bool is_silent;   /* it was not answered: asked again when the next listing does not show it */
    unsigned misses;  /* listings without it and without an answer, in a row */
    uint64_t missed_ns;  /* when the last of them was counted */
    uint64_t heard_ns;   /* last answer of its agent; a listing only says that it is there */
    uint64_t hear_ns;    /* owned, unwatched: asked next */
    unsigned absences;   /* times it was found absent, in a row */
    uint64_t absent_ns;  /* when the last of them was counted */
    uint64_t pulse_ns;   /* BLANK: asked next; LEASED: its agent is asked again */
    unsigned unanswered; /* BLANK, LEASED: times it was asked in vain, in a row */
    bool is_mute;        /* BLANK: has not answered, so nobody is given it */
    bool is_vouched;     /* its backend says that it is ready: there is nothing to ask */
    bool is_reverted;    /* its newest write failed: the deadline is the one the store has */
    bool is_used;        /* its token or address may be known to somebody: never blank again */
    bool is_known;       /* LEASED: its owner has done something with it: no longer undone */
    bool was_parked;     /* PARKING: nobody holds it, but its row may still say otherwise */
    bool is_spoiled;     /* LEASED: half changed for its owner, who has not been told of it */
};

static inline struct slot *slot_of(struct list_node *link)
{
    return container_of(link, struct slot, link);
}

struct slot *box_find(const struct pool *p, struct box_id id);
struct slot *box_take(struct pool *p); /* zeroed, not yet known; NULL when none is left */
struct box_id box_mint_id(struct pool *p);
void box_enter(struct pool *p, struct slot *s, enum pool_state state);
void box_set_state(struct pool *p, struct slot *s, enum pool_state next);
void box_relink(struct pool *p, struct slot *s); /* after a change of what decides its list */
/* The owner its labels name, whose id is free. */
void box_take_owner(struct pool *p, struct slot *s, const struct pool_seen *seen);
void box_rank(struct pool *p, struct slot *s); /* after a change of what may end it */
void box_set_doubt(struct pool *p, struct slot *s, bool is_missing, bool is_silent);
void box_recycle_freed(struct pool *p);
void box_mark_dirty(struct pool *p, struct slot *s, uint64_t not_before_ns);
void box_unmark_dirty(struct pool *p, struct slot *s);
uint64_t box_write(struct pool *p, struct slot *s, enum pool_write what);
bool box_is_dying(const struct slot *s);
bool box_is_making(const struct slot *s);
bool box_is_special(const struct slot *s); /* being made for those who wait for it */
enum blank_kind box_blank_kind(const struct pool *p, const struct slot *s);
/* Its backend tells of its death. */
bool box_is_watched(const struct pool *p, const struct slot *s);
bool box_is_hearing(const struct slot *s); /* blank, and asked before somebody gets it */
void box_take_life(struct pool *p, struct slot *s, const char *life);
void box_check(struct pool *p, struct slot *s,
               uint64_t deadline_ns); /* unless it is being checked */

#endif
