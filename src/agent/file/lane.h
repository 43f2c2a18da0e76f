/* lane.h - how many file calls run at once, each in its own process. Long ones (walks, searches)
 * have a separate lane, so that they cannot keep short ones waiting. */
#ifndef AGENT_FILE_LANE_H
#define AGENT_FILE_LANE_H

#include "base/list.h"

enum {
    FILE_LANE_SHORT = 8,
    FILE_LANE_LONG = 2,
    FILE_LANE_WAITING = 64,
    FILE_TRANSFERS_MAX = 64, /* uploads and downloads: as long as their client takes */
    FILE_WATCHES_MAX = 64,   /* the same */
};

struct file_lane {
    struct list waiting; /* of struct file_job */
    unsigned running;
    unsigned running_max;
};

struct file_lanes {
    struct file_lane short_lane;
    struct file_lane long_lane;
    unsigned transfers;
    unsigned watches;
};

static inline void file_lanes_init(struct file_lanes *l)
{
    list_init(&l->short_lane.waiting);
    list_init(&l->long_lane.waiting);
    l->short_lane.running_max = FILE_LANE_SHORT;
    l->long_lane.running_max = FILE_LANE_LONG;
}

#endif
