/* file_lane.h - how many long jobs (walks, searches) hold threads of the pool at once. The pool has
 * four threads; two are always left for transfers and short jobs. Zeroed memory is an empty lane. */
#ifndef AGENT_FILE_LANE_H
#define AGENT_FILE_LANE_H

#include "base/list.h"

enum { FILE_LANE_RUNNING = 2, FILE_LANE_WAITING = 64 };

struct file_lane {
    struct list waiting; /* of struct file_job */
    unsigned running;
};

#endif
