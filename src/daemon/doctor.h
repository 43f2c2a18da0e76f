/* doctor.h - what boxes need on this machine, examined without a running daemon. */
#ifndef DAEMON_DOCTOR_H
#define DAEMON_DOCTOR_H

#include "daemon/daemon.h"

/* Opens the backends of the configuration in a state directory of its own, examines them and
 * prints what GET /v1/doctor answers. The exit status: 1 when there is a `fail`, else 0. */
int doctor_run(const struct daemon_options *options);

#endif
