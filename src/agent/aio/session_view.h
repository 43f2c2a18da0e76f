/* session_view.h - a session as the sandbox API shows it. */
#ifndef AGENT_AIO_SESSION_VIEW_H
#define AGENT_AIO_SESSION_VIEW_H

#include "agent/core/session.h"
#include "base/json.h"

/* Its members but the status, into an open object. `command` is what runs in it, NULL for nothing. */
void aio_put_session(struct json_out *o, const struct session *s, const struct rt *rt,
                     const char *directory, const char *command);

#endif
