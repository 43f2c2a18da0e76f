/* envelope.h - the one form of the sandbox API's answers: {"success","message","data","hint"}, and
 * how its requests are read. */
#ifndef AGENT_AIO_ENVELOPE_H
#define AGENT_AIO_ENVELOPE_H

#include "http/http.h"

/* Initialises `o` and opens the answer and its "data" object; the caller puts the fields of data.
 * `message` may be NULL. */
void envelope_ok_begin(struct json_out *o, const char *message);
/* The same with a list as "data". */
void envelope_ok_begin_list(struct json_out *o, const char *message);
/* Closes what they opened and answers 200. */
void envelope_ok_end(struct http_exchange *ex, struct json_out *o);
/* The same without the answer, for texts that go elsewhere (a stream's events). */
void envelope_ok_close(struct json_out *o);
/* 200 with "data": null. */
void envelope_ok_empty(struct http_exchange *ex, const char *message);

/* success false, data null. 422 has the "detail" list that its clients read, too. */
void envelope_fail(struct http_exchange *ex, int http_status, const char *message);
/* The status of err->code: 404 SP_NOT_FOUND, 422 SP_INVALID_FIELD and SP_BAD_REQUEST, ... */
void envelope_fail_err(struct http_exchange *ex, const struct err *err);

/* The same as text, without an answer; the status that goes with it. */
int envelope_print_err(struct buf *out, const struct err *err);

/* The body as an object; an empty body is an empty object. If it is not an object, the error has
 * been answered and NULL is returned. Free it with json_doc_free(). */
struct json_doc *envelope_read(struct http_exchange *ex);

/* A number of seconds, whole or not, from 0 to a week. Absent or null: *ret_ns is left alone. */
MUST_CHECK int envelope_field_seconds(const struct json *obj, const char *key, uint64_t *ret_ns,
                                      struct err *err);
/* As json_field_str(), but absent, null or empty is SP_INVALID_FIELD. */
MUST_CHECK int envelope_need_str(const struct json *obj, const char *key, size_t max_len,
                                 const char **ret, struct err *err);

/* One field of a request; exactly one of the places to store it is set. A field that is absent or
 * null leaves the place unchanged. If it is required, an absent, null or empty one is
 * SP_INVALID_FIELD. */
struct envelope_field {
    const char *key; /* NULL: the end of a list */
    const char **text;
    bool *flag;
    uint64_t *number;
    uint64_t *seconds_ns;
    const struct json **object;
    uint64_t max; /* of a text's length, of a number */
    bool is_needed;
};
/* Reads them in order; stops at the first wrong one. */
MUST_CHECK int envelope_fields(const struct json *obj, const struct envelope_field *fields,
                               struct err *err);

/* Reads the body and calls `run` with it, which answers and returns SP_OK; any other code is
 * answered here. The body is freed when this returns. */
void envelope_call(struct http_exchange *ex,
                   int (*run)(struct http_exchange *ex, const struct json *root, struct err *err));

#endif
