/* internal.h - the daemon's parts, shared by its files only. */
#ifndef DAEMON_INTERNAL_H
#define DAEMON_INTERNAL_H

#include "daemon/certificate.h"
#include "daemon/daemon.h"
#include "daemon/listeners.h"
#include "daemon/rest.h"
#include "daemon/servers.h"
#include "daemon/upgrade.h"
#include "daemon/upgrade_successor.h"
#include "dialects/native/api.h"
#include "dialects/provisioner/provisioner.h"
#include "engine/engine.h"
#include "loop/httpc.h"
#include "loop/signals.h"

struct daemon {
    const struct daemon_options *options;
    struct loop loop;
    struct signals signals;
    struct httpc *http_client;
    struct listeners listeners;
    struct servers servers;
    struct tls *tls;                 /* of their TCP listeners; NULL: none */
    struct provisioner *provisioner; /* NULL: not enabled */
    struct engine *engine;
    struct api api;
    struct takeover takeover;   /* from a predecessor, at start */
    struct list cargo;          /* connections without a server */
    struct upgrade upgrade;     /* to a successor */
    struct rest rest;           /* that a take-over left */
    struct engine_watcher ends; /* see ends.h */
    char state_dir[CONFIG_PATH_MAX + 1];
    int lock_fd;
    uint64_t file_limit;
    struct rt_timer stop_timer;
    uint64_t stop_deadline_ns;
    struct rt_timer watchdog_timer;
    struct rt_timer beat_timer; /* while it stops: see guard.h */
    bool is_stopping;
    bool is_closing;
    bool is_handed_over; /* the files in the state directory are a successor's */
    int exit_status;
};

/* Opens the engine with this configuration, which it takes over unless it fails, recovers and listens. One that has
 * failed is to be closed. */
MUST_CHECK int daemon_open_engine(struct daemon *d, struct config *config, struct err *err);
/* Closes all that was opened before the engine failed, which is the last of it. */
void daemon_unwind(struct daemon *d);
/* Begins to stop; a second call stops at once. */
void daemon_stop(struct daemon *d, const char *why);
/* Nothing is left but the loop: ends it. */
void daemon_finish(struct daemon *d);

#endif
