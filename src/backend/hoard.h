/* hoard.h - how much memory of the kernel a box holds that is charged to no control group: file locks and open
 * directories. The kernel has no limit for them. What is counted is exact, its size is an upper bound. */
#ifndef BACKEND_HOARD_H
#define BACKEND_HOARD_H

#include <stdbool.h>
#include <stdint.h>

struct hoard {
    uint64_t locks;
    uint64_t dirs;       /* open files of directories; those that several processes share once */
    uint64_t dir_bytes;  /* the most that these can take */
    uint64_t passed;     /* files on their way through Unix sockets, which may be directories */
    uint64_t files;      /* looked at */
    uint64_t lock_lines; /* read; more than `locks` when a process has a file open several times */
    uint64_t tasks;      /* threads, of which some may have ended meanwhile */
    bool is_unreadable;  /* some processes could not be looked into */
};

/* On any thread, and it takes a while: some microseconds for each open file. `group` is the directory of a control
 * group; those in it count, too. The count ends early once it is above `max_bytes`. */
void hoard_count(const char *group, uint64_t max_bytes, struct hoard *ret);
/* What all of it takes of the machine's memory, at the most. */
uint64_t hoard_bytes(const struct hoard *h);
/* Whether it holds more, or more than can be counted. */
bool hoard_is_over(const struct hoard *h, uint64_t max_bytes);
/* "340 file locks, 12 open directories: up to 1 MB": what it holds, for people. */
void hoard_describe(const struct hoard *h, char *dst, unsigned long cap);

#endif
