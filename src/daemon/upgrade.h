/* upgrade.h - the running daemon's side of a take-over.
 *
 *   IDLE -> ASKED -> OFFERED -> PROVING -> DRAINING -> CLOSING -> GIVEN -> the daemon ends
 *    ^--------+---------+---------+-----------+           |        |
 *    ^----------------------------------- RETURNING <-----+--------+  the successor ended before it served
 *
 * Up to PROVING, in which the store has to write a row, nothing has happened. DRAINING: no request is
 * begun, those under way are finished; if one does not end in time the take-over is given up, rather
 * than the request. CLOSING: the store is closed; GIVEN: the successor has everything and starts. Up to
 * its DONE we keep copies of all sockets, and open the store again with the configuration we had when it
 * fails: RETURNING, for as long as that takes. */
#ifndef DAEMON_UPGRADE_H
#define DAEMON_UPGRADE_H

#include <sys/types.h>
#include <uv.h>

#include "base/rt.h"
#include "config/config.h"
#include "loop/work.h"

struct daemon;
struct upgrade_peer;

enum upgrade_state {
    UPGRADE_IDLE,
    UPGRADE_ASKED,
    UPGRADE_OFFERED,
    UPGRADE_PROVING,
    UPGRADE_DRAINING,
    UPGRADE_CLOSING,
    UPGRADE_GIVEN,
    UPGRADE_RETURNING,
    UPGRADE_STATE_COUNT
};

struct upgrade {
    struct daemon *daemon;
    enum upgrade_state state;
    char program[CONFIG_PATH_MAX + 1]; /* "": not known */
    struct upgrade_peer *listener;
    struct upgrade_peer *peer; /* the successor; NULL: none, or it has gone */
    struct upgrade_peer *heir; /* the same when it serves, and we have a rest */
    pid_t peer_pid;
    bool takes_rests; /* it reports to daemons before us what ends */
    struct rt_timer timer;
    uint64_t started_ns; /* of DRAINING */
    uint64_t deadline_ns;
    int started_fd;        /* pidfd of the successor that upgrade_start() made; 0: none */
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
void upgrade_open(struct upgrade *h, struct daemon *d);
/* Starts the program again, from where it was started, as our own successor. */
void upgrade_start(struct upgrade *h);
/* The daemon stops. False: the rest of the take-over does that by itself. */
MUST_CHECK bool upgrade_stop(struct upgrade *h);
/* upgrade_undo.c: opens everything again, and tries until it can. */
void upgrade_undo(struct upgrade *h);
/* Nothing is open any more but sockets: the daemon ends. */
void upgrade_close(struct upgrade *h);
/* Whether configuration and servers are in use by a take-over. */
bool upgrade_is_busy(const struct upgrade *h);

#endif
