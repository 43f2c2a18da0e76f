/* certificate.h - the certificate of our listeners on TCP: read at start and at each reload, and used for connections from then on. */
#ifndef DAEMON_CERTIFICATE_H
#define DAEMON_CERTIFICATE_H

#include "config/config.h"
#include "daemon/servers.h"
#include "tls/tls.h"

/* *ret is NULL when the configuration names none. */
MUST_CHECK int certificate_read(const struct config *c, struct tls **ret, struct err *err);
/* Takes `t` over, in place of *own. */
void certificate_use(struct tls **own, struct tls *t, struct servers *servers);

#endif
