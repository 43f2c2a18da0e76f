/* kernel_watch.h - ends boxes that take memory of the machine which is charged to no control group and for which the
 * kernel has no limit (hoard.h). Every second one number of the machine is read; when it has grown, a thread
 * counts what each box holds; without a reason every five seconds to a minute, by how long that takes. */
#ifndef BACKEND_KERNEL_WATCH_H
#define BACKEND_KERNEL_WATCH_H

#include "backend/backend.h"
#include "backend/closing.h"
#include "backend/hoard.h"
#include "loop/loop.h"

struct kernel_watch_look;

struct kernel_watch {
    struct loop *loop;
    struct closing *closing;
    void *ctx;
    uint64_t max_bytes; /* of one box; 0: nobody watches */
    /* On a thread: kernel_watch_count() for each box. Touches nothing that changes. */
    void (*each_box)(void *ctx, struct kernel_watch_look *look);
    bool (*has_boxes)(void *ctx);
    /* On the loop: this box holds more than it may. */
    void (*on_over)(void *ctx, uint64_t box_id, const char *what);

    int meminfo;        /* -1: not readable */
    bool is_blind;      /* the last count could not look into all processes, */
    bool is_unseen;     /* or found none, though there were boxes */
    uint64_t reference; /* bytes of the machine from which on growth is measured */
    uint64_t begun_ns;  /* the last count */
    uint64_t count_ns;  /* when the next is due */
    struct rt_timer timer;
};

/* The caller has filled the first part of a zeroed object. */
void kernel_watch_open(struct kernel_watch *w);
/* When the backend begins to close; a count that runs ends by itself, among the closing's inner operations. */
void kernel_watch_close(struct kernel_watch *w);

/* `group`: the directory of the box's control group. */
void kernel_watch_count(struct kernel_watch_look *look, uint64_t box_id, const char *group);

/* For `sandpool doctor`. `key` is the name of the bound in the configuration; `why_not` NULL, or why nobody counts. */
void kernel_watch_report(const struct kernel_watch *w, struct backend_exam *r, const char *key,
                         const char *why_not);

#endif
