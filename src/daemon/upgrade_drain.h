/* upgrade_drain.h - PROVING, DRAINING and CLOSING of a take-over (upgrade.h), and what follows each. */
#ifndef DAEMON_UPGRADE_DRAIN_H
#define DAEMON_UPGRADE_DRAIN_H

#include "daemon/upgrade.h"

/* Asks the store to write a row. Then PROVING becomes DRAINING, and DRAINING goes on; or it is given up. */
void upgrade_prove(struct upgrade *h);
/* DRAINING, at each tick of the timer: CLOSING when nothing is under way any more, given up when that takes too long. */
void upgrade_drain(struct upgrade *h);

/* upgrade.c */
void upgrade_set_timer(struct upgrade *h, uint64_t after_ns);
/* Nothing was closed yet: the successor is refused, and we go on. */
void upgrade_give_up(struct upgrade *h, const char *why);
/* The end of CLOSING: the database is closed. */
void upgrade_give(struct upgrade *h);

#endif
