/* notify.h - reports the daemon's state to systemd (or whoever set NOTIFY_SOCKET). */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stdint.h>

/* "READY=1", "STOPPING=1", "RELOADING=1\n...", "WATCHDOG=1". Nothing happens without NOTIFY_SOCKET. */
void notify_send(const char *state);
/* How often WATCHDOG=1 is due in ns; 0 when nobody watches. */
uint64_t notify_watchdog_ns(void);

#endif
