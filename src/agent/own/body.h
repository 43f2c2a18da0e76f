/* body.h - the body of a request to the agent's own interface. */
#ifndef AGENT_OWN_BODY_H
#define AGENT_OWN_BODY_H

#include "http/http.h"

/* The body as an object, an empty one for none; NULL after the error was answered. Free it with
 * json_doc_free(). */
struct json_doc *agent_read_body(struct http_exchange *ex);

/* Seconds, fractions allowed, from 0 to max_s. Absent or null: *ret_ns is left alone. Other values:
 * SP_INVALID_FIELD with the field's name. */
MUST_CHECK int agent_field_seconds(const struct json *obj, const char *key, unsigned max_s,
                                   uint64_t *ret_ns, struct err *err);

#endif
