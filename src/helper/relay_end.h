/* relay_end.h - the two ends of a connection of a relay, and how bytes go from one to the other. What is
 * read is looked at first (MSG_PEEK) and taken when the other end has taken it: so no byte is kept here,
 * and no memory allocated, which would need more system calls than relay_filter.c allows. */
#ifndef HELPER_RELAY_END_H
#define HELPER_RELAY_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_NOT_WATCHED UINT32_MAX

struct relay_conn;

struct relay_end {
    struct relay_conn *conn;
    struct relay_end *other;
    int fd;
    uint32_t watched; /* epoll's events */
    bool is_read;     /* nothing comes from it any more */
    bool is_shut;     /* nothing goes to it any more */
    bool is_full;     /* it did not take all that was there for it */
    bool is_tcp;
    bool is_box;
    bool has_taken; /* something, since somebody looked */
};

/* It takes nothing any more; what the other end still says is of no use. */
void relay_end_shut(struct relay_end *e);
/* Signals to it that the other end sends nothing more. */
void relay_end_finish(struct relay_end *to);
/* From one end to the other until one of them has enough. False: the connection is broken. */
bool relay_end_pump(struct relay_end *from);
/* Takes what it still says, for nobody. False: it has said all, or is gone. */
bool relay_end_drain(const struct relay_end *e);
/* Events to wait for. */
uint32_t relay_end_wanted(const struct relay_end *e);

#endif
