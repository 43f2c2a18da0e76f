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
    struct list_node dirty_link;     /* its row has to be written: on p->dirty or p->rewrites */
    struct list_node doubt_link;     /* its backend has to be asked for it */
    struct list_node idle_link;      /* LEASED: its agent has to be asked whether it is idle */
    struct list_node hibernate_link; /* PARKED: it waits to become a snapshot */
    struct map_node by_id;
    struct map_node by_sandbox; /* linked while the id is bound to this box */
    struct map_node by_ref;     /* while the backend's name is known */
    struct map_node by_ending;  /* by the id it had */
    struct owner *owner;        /* while it has an owner, or had one until its end began */
    struct list_node owner_link;
    struct heap_node due;                     /* next time at which it changes without an event */
    struct heap_node evict;                   /* PARKED, by parked_ns */
    struct holder *holders[POOL_LEVEL_COUNT]; /* of quotas, that it counts for */
    struct maker *maker; /* INTENT to STARTING, and bound: where it is counted */
    struct list waiters; /* requests that wait for this box */
    uint64_t wait_write; /* the commit that its state waits for; 0: none */
    uint64_t last_write;
    uint64_t pause_write;       /* the box is frozen when this is committed; 0: none */
    unsigned open_writes;       /* not answered yet */
    uint64_t flush_write;       /* of those that count for POOL_FLUSH_MAX; 0: none */
    uint64_t retry_ns;          /* DESTROYING: next try */
    uint64_t rewrite_ns;        /* dirty: not written before */
    uint64_t changed_ns;        /* last state change */
    uint64_t age_ns;            /* BLANK: too old from here on */
    uint64_t saved_ns;          /* last activity that is in the store, or being written */
    uint64_t committed_ns;      /* deadline in the row the store has */
    unsigned reply_count;       /* LEASED: replies that name it, minus undelivered ones */
    uint64_t listing;           /* last listing that showed it */
    unsigned tries;             /* destroys that failed */
    enum pool_state lease_from; /* the state to which an undone lease returns; FREE: discovered,
                                 * STARTING: made for it */
    enum pool_source source;
    bool is_asked;    /* an answer to a create, probe or destroy is pending; LEASED: of its agent */
    bool is_checking; /* an answer to a check is pending */
    bool is_made;     /* made by this process: its failure counts against the profile */
    bool is_create_unknown; /* its backend has not answered its create: it may exist */
    bool is_missing;        /* the last clean listing did not show it, and it was not seen since */
    bool is_asking;         /* the check is (also) because of that */
    bool is_silent;     /* it was not answered: asked again if the next listing does not show it */
    unsigned misses;    /* listings without it and without an answer, in a row */
    uint64_t missed_ns; /* when the last of them was counted */
    uint64_t answered_ns; /* last answer of its agent; a listing only shows that it exists */
    uint64_t recheck_ns;  /* owned, unwatched: next recheck */
    unsigned absences;    /* times it was found absent, in a row */
    uint64_t absent_ns;   /* when the last of them was counted */
    uint64_t pulse_ns;    /* BLANK: next check; LEASED: its agent is asked again */
    unsigned unanswered;  /* BLANK, LEASED: unanswered questions in a row */
    bool is_mute;         /* BLANK: has not answered, so nobody gets it */
    bool is_vouched;      /* its backend guarantees that it is ready: no probe */
    bool is_reverted;     /* its newest write failed: the deadline is the one in the store */
    bool is_used;         /* a caller may know its token or address: never blank again */
    bool is_known;        /* LEASED: its owner has used it: not undone any more */
    bool was_parked;      /* PARKING: has no owner, but its row may still have one */
    bool is_unclaimed;    /* restored, and never given to its thread: it has no files of it */
    bool is_pause_open;   /* restored: no listing has shown yet whether it is frozen */
    bool is_row_behind;   /* LEASING, PARKING: the row has to be written again */
    enum pool_end hibernate_end; /* PARKED: why it is to become a snapshot; NONE: it is not */
    unsigned hibernate_tries;
    uint64_t hibernate_ns; /* the next one */
    bool is_hibernating;   /* an answer is pending */
    bool is_rebasing;      /* PARKED: those who wait for it want what is made from its snapshot */
    bool was_rebased;      /* PARKED: that has failed, so they get it as it is */
    bool is_restored;      /* made from a hibernated box: it has its owner's files */
    bool is_spoiled;       /* LEASED: half changed for its owner, who has got no reply yet */
};

static inline struct slot *slot_of(struct list_node *link)
{
    return container_of(link, struct slot, link);
}

struct slot *box_find(const struct pool *p, struct box_id id);
struct slot *box_take(struct pool *p); /* zeroed, not yet in the maps; NULL if none is left */
struct box_id box_mint_id(struct pool *p);
void box_enter(struct pool *p, struct slot *s, enum pool_state state);
void box_set_state(struct pool *p, struct slot *s, enum pool_state next);
void box_relink(struct pool *p, struct slot *s); /* call after a change of what decides its list */
/* The owner that its labels name, if that id is free. */
void box_take_owner(struct pool *p, struct slot *s, const struct pool_seen *seen);
void box_rank(struct pool *p, struct slot *s); /* call after a change of what may end it */
void box_set_doubt(struct pool *p, struct slot *s, bool is_missing, bool is_silent);
void box_recycle_freed(struct pool *p);
void box_mark_dirty(struct pool *p, struct slot *s, uint64_t not_before_ns);
void box_unmark_dirty(struct pool *p, struct slot *s);
uint64_t box_write(struct pool *p, struct slot *s, enum pool_write what);
bool box_is_dying(const struct slot *s);
bool box_is_making(const struct slot *s);
bool box_is_flying(const struct slot *s);  /* bound, and INTENT or CREATING */
bool box_is_landing(const struct slot *s); /* bound, and STARTING */
bool box_is_special(const struct slot *s); /* being made for those who wait for it */
enum blank_kind box_blank_kind(const struct pool *p, const struct slot *s);
/* Its backend reports its death. */
bool box_is_watched(const struct pool *p, const struct slot *s);
bool box_is_verifying(const struct slot *s); /* blank, and checked before somebody gets it */
void box_take_life(struct pool *p, struct slot *s, const char *life);
void box_check(struct pool *p, struct slot *s,
               uint64_t deadline_ns); /* unless it is being checked */

#endif
