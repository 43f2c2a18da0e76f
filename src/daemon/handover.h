/* handover.h - the running daemon's side of a hand-over.
 *
 *   IDLE -> ASKED -> OFFERED -> PROVING -> DRAINING -> CLOSING -> GIVEN -> the daemon ends
 *    ^--------+---------+---------+-----------+           |        |
 *    ^----------------------------------- RETURNING <-----+--------+  the successor ended before it served
 *
 * Up to PROVING, in which the store has to write a row, nothing has happened. DRAINING: no request is
 * begun, those under way are finished; if one does not end in time the hand-over is given up, rather
 * than the request. CLOSING: the store is closed; GIVEN: the successor has everything and starts. Up to
 * its DONE we keep copies of all sockets, and open the store again with the configuration we had when it
 * fails: RETURNING, for as long as that takes. */
#ifndef DAEMON_HANDOVER_H
#define DAEMON_HANDOVER_H

#include <sys/types.h>
#include <uv.h>

#include "base/rt.h"
#include "config/config.h"
#include "loop/work.h"

struct daemon;
struct handover_peer;

enum handover_state {
    HANDOVER_IDLE,
    HANDOVER_ASKED,
    HANDOVER_OFFERED,
    HANDOVER_PROVING,
    HANDOVER_DRAINING,
    HANDOVER_CLOSING,
    HANDOVER_GIVEN,
    HANDOVER_RETURNING,
    HANDOVER_STATE_COUNT
};

struct handover {
    struct daemon *daemon;
    enum handover_state state;
    char program[CONFIG_PATH_MAX + 1]; /* "": not known */
    struct handover_peer *listener;
    struct handover_peer *peer; /* the successor; NULL: none, or it has gone */
    pid_t peer_pid;
    struct rt_timer timer;
    uint64_t started_ns; /* of DRAINING */
    uint64_t deadline_ns;
    int started_fd;        /* pidfd of the successor that handover_start() made; 0: none */
    bool is_ending;        /* the successor was killed */
    struct config *config; /* from CLOSING on: to go back with */
    bool is_proving;       /* the store has been asked to write a row */
    bool is_proved;        /* DRAINING: it has */
    uint64_t proof;        /* number of the last row */
    struct work disk_work; /* RETURNING: waits for the disk */
    struct rt_timer back_timer;
    uint64_t back_wait_ns;
};

/* Waits for a successor from now on. That it cannot is logged: the daemon works without. */
void handover_open(struct handover *h, struct daemon *d);
/* Starts the program again, from where it was started, as our own successor. */
void handover_start(struct handover *h);
/* The daemon stops. False: the rest of the hand-over does that by itself. */
MUST_CHECK bool handover_stop(struct handover *h);
/* handover_back.c: opens everything again, and tries until it can. */
void handover_back(struct handover *h);
/* Nothing is open any more but sockets: the daemon ends. */
void handover_close(struct handover *h);
/* Whether configuration and servers are in use by a hand-over. */
bool handover_is_busy(const struct handover *h);

#endif
