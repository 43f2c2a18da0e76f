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

int agent_field_seconds(const struct json *obj, const char *key, unsigned max_s, uint64_t *ret_ns,
                        struct err *err)
{
    const struct json *v = json_get(obj, key);
    double seconds;

    if (v == NULL || json_is_null(v))
        return SP_OK;
    seconds = json_is_num(v) ? json_num(v) : -1;
    if (!(seconds >= 0) || seconds > max_s)
        return err_set(err, SP_INVALID_FIELD, "'%s' must be seconds from 0 to %u", key, max_s);
    *ret_ns = (uint64_t) (seconds * (double) NS_PER_S);
    if (seconds > 0 && *ret_ns == 0)
        *ret_ns = 1; /* 0 often means "without a limit" */
    return SP_OK;
}
