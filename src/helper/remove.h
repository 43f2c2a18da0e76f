/* remove.h - ends a box and all that belongs to it. */
#ifndef HELPER_REMOVE_H
#define HELPER_REMOVE_H

#include "helper/box_dir.h"
#include "helper/plan_read.h"
#include "helper/tree.h"

struct remove_report {
    bool was_running;
    bool is_counted; /* `processes` are all that there were: its control group knew them */
    unsigned processes;
    unsigned mounts; /* of the mount namespace that went with them */
    unsigned layers; /* of its own */
    unsigned cgroups;
    struct tree_count tree;
};

/* Everything of the box that plan->dir, remove, cgroup and runtime_state name. Parts that are
 * missing are fine. Goes on after an error and returns the first one. */
MUST_CHECK int remove_box(const struct plan *p, struct remove_report *ret, struct err *err);
/* The same for what is outside and inside of a directory whose lock we hold; the directory stays. */
MUST_CHECK int remove_leftover(const struct plan *p, const struct box_dir *d,
                               struct remove_report *ret, struct err *err);

/* Ends what runs of the box and takes its lock; nobody uses its disk any more then. */
MUST_CHECK int remove_running(const struct plan *p, struct box_dir *d, struct err *err);

#endif
