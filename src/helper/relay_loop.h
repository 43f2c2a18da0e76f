/* relay_loop.h - what a relay does all its life: it takes callers, finds a way into the box for each
 * that says something, and passes bytes both ways. Memory is bounded and does not grow: what one end
 * does not take stays in the kernel's queue of the other. */
#ifndef HELPER_RELAY_LOOP_H
#define HELPER_RELAY_LOOP_H

#include <stdbool.h>

enum {
    RELAY_SERVED_MAX = 512, /* connections into the box at once */
    /* Callers beside them that have said nothing yet, or (a quarter of it) wait for the box. As many must
     * come before one that has just come is pushed out: more than a crowd brings until it has spoken. */
    RELAY_NEW_MAX = 1024,
    /* Beside them, callers that the box has closed: those that are still to take some of what it said,
     * and as many that are to close. */
    RELAY_LEFT_MAX = 256,
    RELAY_SOURCES_MAX = 2,
};

struct relay_loop {
    /* Where callers come from; -1, or what epoll does not take, is none. */
    int sources[RELAY_SOURCES_MAX];
    int end;           /* readable or hung up: the box has ended */
    int leash;         /* likewise, if epoll takes it: a file never ends it; -1: there is none */
    bool is_end_asked; /* enter() fails with EAGAIN until `end` can be written to */
    int dir;           /* for enter(), as it likes */
    const char *name;
    /* The next caller, or a connection into the box: a descriptor that does not block; -1: errno. EAGAIN
     * of enter() and a want of descriptors or memory mean "later". */
    int (*take)(const struct relay_loop *config, int source);
    int (*enter)(const struct relay_loop *config);
};

/* Raises the limit of open files to what it needs, or to what it gets. Returns when the box has ended,
 * or when it cannot go on. */
void relay_loop_prepare(void);
void relay_loop_run(const struct relay_loop *config);

#endif
