/* world.h - a simulated machine: boxes in memory, that take time to make, fail, and die.
 *
 * The world is passive. It reads the clock of the rt it was given and sets no timer: a call says
 * when its answer is due, and whoever asked waits until then. A box exists from the moment it was
 * asked for, as in a real engine: an answer that nobody reads does not make it go away. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/rt.h"

enum { WORLD_BOXES_MAX = 200000, WORLD_TEXT_MAX = 128, WORLD_FORGOTTEN = 256 };
enum { WORLD_UPDATES_MAX = 16 };

/* The texts of a box. All but the token are labels. */
enum world_text {
    WORLD_INSTANCE,
    WORLD_PROFILE,
    WORLD_SANDBOX_ID,
    WORLD_USER,
    WORLD_THREAD,
    WORLD_TOKEN,
    WORLD_TEXT_COUNT
};

/* What a box is made from. The texts are borrowed; NULL counts as "". */
struct world_spec {
    uint64_t box_id;
    uint64_t spec_hash;
    uint64_t generation;
    uint64_t principal;
    const char *text[WORLD_TEXT_COUNT];
};

/* How the machine behaves while making one. */
struct world_manners {
    uint64_t create_ms;
    uint64_t create_jitter_ms; /* added: 0 to this, drawn from the seed */
    uint64_t ready_ms;         /* after the answer: how long the box is not ready yet */
    uint64_t fail_percent;     /* no box, SP_BACKEND_FAILED */
    uint64_t hang_percent;     /* the box is there, the answer never comes */
    uint64_t seed;
};

/* What was bound to a box after it was made, as JSON texts, the last ones. */
struct world_updates {
    bool is_running;
    unsigned count;
    char *texts[WORLD_UPDATES_MAX];
};

struct world_box {
    struct map_node by_id;
    struct map_node by_sandbox; /* linked while the sandbox id is not "" */
    uint64_t box_id;
    uint64_t spec_hash;
    uint64_t generation;
    uint64_t principal;
    uint64_t ready_ns; /* when it begins to serve */
    bool is_frozen;
    char *texts; /* one after the other, each with its NUL: world_box_text() */
    size_t slot;
    struct world_updates *updates; /* NULL: none yet */
};

struct world_stats {
    uint64_t created;
    uint64_t failed;
    uint64_t hung;
    uint64_t destroyed;
    uint64_t killed;
};

struct world {
    struct rt *rt;
    struct map by_id;
    struct map by_sandbox;
    struct world_box **slots; /* a box keeps its place, so that a listing in pages misses none */
    size_t slot_count;
    size_t slot_cap;
    size_t *free_slots; /* as many as slot_cap */
    size_t free_count;
    size_t max;
    uint64_t draws;
    /* Ids that were destroyed without being there: their create may have been overtaken on its
     * way, and must not leave a box behind. */
    struct {
        uint64_t box_id;
        uint64_t until_ns;
    } forgotten[WORLD_FORGOTTEN];
    size_t forgotten_next;
    struct world_stats stats;
    void (*on_died)(void *ctx, uint64_t box_id, const char *reason);
    void *ctx;
};

/* `on_died` (may be NULL) is called from world_kill(), when the box is gone already. */
void world_init(struct world *w, struct rt *rt, size_t max,
                void (*on_died)(void *ctx, uint64_t box_id, const char *reason), void *ctx);
void world_fini(struct world *w);

/* Makes a box, or finds the one that has this id already. *ret_answer_ns is when the answer is
 * due, for failures too; RT_NEVER: it never comes. *ret_is_new is set when this call made it.
 * SP_BACKEND_FAILED by chance, or when the id was destroyed before its create came; SP_TOO_BIG when
 * the machine is full. */
MUST_CHECK int world_create(struct world *w, const struct world_spec *spec,
                            const struct world_manners *m, uint64_t *ret_answer_ns,
                            bool *ret_is_new, struct err *err);
/* False when there is no such box. */
bool world_destroy(struct world *w, uint64_t box_id);
bool world_kill(struct world *w, uint64_t box_id, const char *reason);
/* New labels; id, instance and token stay. SP_NOT_FOUND. */
MUST_CHECK int world_bind(struct world *w, const struct world_spec *labels, struct err *err);

/* updates.c: a box is changed while it runs. One at a time: a second is SP_BACKEND_FAILED, because a
 * real machine would mix the two. SP_NOT_FOUND. */
MUST_CHECK int world_update_begin(struct world *w, uint64_t box_id, struct err *err);
/* `text` says what was done; NULL: it failed half way. The box may be gone meanwhile. */
void world_update_end(struct world *w, uint64_t box_id, const char *text);
void world_updates_free(struct world_updates *u); /* NULL is fine */

/* NULL when there is none. Valid until the next call that changes the world. */
struct world_box *world_find(const struct world *w, uint64_t box_id);
/* The one with the highest generation. */
struct world_box *world_find_sandbox(const struct world *w, const char *instance,
                                     const char *sandbox_id);
/* Walks all boxes: start with *cursor 0, NULL at the end. A box that is there all the time is seen
 * once, whatever is made and destroyed meanwhile. */
struct world_box *world_next(const struct world *w, size_t *cursor);
size_t world_count(const struct world *w);

const char *world_box_text(const struct world_box *box, enum world_text which);
/* Everything at once; the texts live as long as the box. */
void world_box_spec(const struct world_box *box, struct world_spec *ret);

#endif
