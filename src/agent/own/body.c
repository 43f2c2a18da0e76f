/* body.c - reading requests to the agent's own interface. */
#include "agent/own/body.h"

struct json_doc *agent_read_body(struct http_exchange *ex)
{
    struct err err;
    size_t len = 0;
    const char *body = http_body(ex, &len);
    struct json_doc *doc =
        len > 0 ? json_parse(body, len, len, &err) : json_parse("{}", 2, 2, &err);

    if (doc != NULL && !json_is_obj(json_root(doc))) {
        (void) err_set(&err, SP_BAD_REQUEST, "the body must be a JSON object");
        doc = json_doc_free(doc);
    }
    if (doc == NULL)
        http_reply_err(ex, &err);
    return doc;
}
