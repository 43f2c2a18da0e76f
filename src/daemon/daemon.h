/* daemon.h - the daemon from its first to its last act. */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>

#include "config/config.h"

struct daemon_options {
    char *const *argv;       /* as the program was started */
    const char *config_path; /* NULL: defaults */
    const char *state_dir;   /* NULL: the configuration's */
    const char *socket;      /* NULL: the configuration's */
    bool want_standby;
    bool want_takeover;
    bool want_destroy; /* leave no box behind when stopping */
};

/* Reads the configuration and lays the options over it. */
MUST_CHECK int daemon_load_config(const struct daemon_options *options, struct config **ret,
                                  struct err *err);
/* Runs until a signal ends it; returns the exit status. */
int daemon_run(const struct daemon_options *options);

#endif
