/* upgrade_send.h - what the running daemon sends to its successor, packet by packet (upgrade_packet.h). */
#ifndef DAEMON_UPGRADE_SEND_H
#define DAEMON_UPGRADE_SEND_H

#include "base/list.h"
#include "daemon/listeners.h"
#include "daemon/upgrade_packet.h"
#include "daemon/upgrade_successor.h"

/* Whether a successor that says this can go on with our database. */
MUST_CHECK int give_check_hello(const struct packet *b, bool *ret_takes_rests, struct err *err);
/* OFFER: the listening sockets, and what the service manager gave us. */
MUST_CHECK int give_offer(int fd, const struct listeners *l, struct err *err);
/* CONNECTION for each, REST for each daemon before us (NULL: the successor takes none), then YOURS. Blocks, for a bounded time per packet: the loop has nothing else
 * to do at that moment. */
MUST_CHECK int give_all(int fd, const struct list *cargo, const struct takeover *before,
                        int lock_fd, struct err *err);

#endif
