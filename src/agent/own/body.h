/* body.h - the body of a request to the agent's own interface. */
#ifndef AGENT_OWN_BODY_H
#define AGENT_OWN_BODY_H

#include "http/http.h"

/* The body as an object, an empty one for none; NULL after the error was answered. Free it with
 * json_doc_free(). */
struct json_doc *agent_read_body(struct http_exchange *ex);

#endif
