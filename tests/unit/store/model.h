/* model.h - the store as plain arrays, and a script of random writes. The i-th write of a seed is
 * always the same, so what a killed process left behind can be compared with the script played up
 * to any place. */
#ifndef TESTS_UNIT_STORE_MODEL_H
#define TESTS_UNIT_STORE_MODEL_H

#include "base/buf.h"
#include "base/rand.h"
#include "fixture.h"

#define MODEL_BOXES 24
#define MODEL_IDS 12
#define MODEL_METAS 4

/* One write with the texts it points to; it must stay where it was made. */
struct step {
    struct put put;
    uint64_t at_ms; /* wall clock when it is submitted */
    char sandbox_id[16];
    char text[48];
};

struct script {
    struct rand rand;
    uint64_t next; /* number of the next write, from 1 */
    uint64_t events;
};

struct model_box {
    bool is_there;
    struct store_box row;
    char sandbox_id[16];
    char text[48];
};

struct model_lease {
    bool is_there;
    uint64_t generation;
    uint64_t box;
    uint64_t ended_ms;
    char end[16];
};

struct model {
    struct model_box boxes[MODEL_BOXES];
    struct model_lease leases[MODEL_IDS];
    uint64_t metas[MODEL_METAS];
    uint64_t events;
};

void script_init(struct script *s, uint64_t seed);
void script_next(struct script *s, struct step *ret);
/* Moves the fixture's clock to the step and submits it. */
void step_submit(struct fixture *f, struct step *step, void (*on_done)(struct op *));

void model_init(struct model *m);
void model_apply(struct model *m, const struct step *step);
/* Both as text that is equal when they hold the same. */
void model_print(const struct model *m, struct buf *out);
void model_print_store(struct fixture *f, struct buf *out);

#endif
