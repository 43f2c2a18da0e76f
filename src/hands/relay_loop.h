/* relay_loop.h - what a relay does all its life. */
#ifndef HANDS_RELAY_LOOP_H
#define HANDS_RELAY_LOOP_H

struct relay_loop {
    int listen; /* where callers come from */
    int dir;    /* where the box's socket is, or what the box has put there instead */
    int init;   /* pidfd: the end of the box */
    const char *name;
    unsigned max; /* connections at once; more wait in the socket's queue */
};

/* Returns when the box's init has ended, or when it cannot go on. */
void relay_loop_run(const struct relay_loop *config);

#endif
