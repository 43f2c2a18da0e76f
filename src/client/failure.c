/* failure.c - why a call failed, as a code and a sentence: reads the daemon's one error form. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "client/internal.h"

int client_fail(struct sp_failure *f, int code, const char *fmt, ...)
{
    va_list ap;

    if (f == NULL)
        return code;
    memset(f, 0, sizeof(*f));
    f->code = code;
    va_start(ap, fmt);
    (void) vsnprintf(f->message, sizeof(f->message), fmt, ap); /* cutting it is fine */
    va_end(ap);
    return code;
}

int client_fail_http(struct sp_failure *f, const struct answer *a)
{
    struct json_doc *doc = json_parse(buf_str(&a->body), a->body.len, CLIENT_BODY_MAX, NULL);
    const struct json *error = json_get(json_root(doc), "error");
    const char *name = json_str(json_get(error, "code"));
    const char *message = json_str(json_get(error, "message"));
    uint64_t retry_ms = a->retry_after_s * 1000;
    int code = SP_PROTOCOL;

    if (name != NULL) {
        code = sp_error_from_name(name);
        /* Members that a newer daemon left out or changed are no reason to lose the rest. */
        if (!json_u64(json_get(error, "retry_after_ms"), &retry_ms))
            retry_ms = a->retry_after_s * 1000;
        (void) client_fail(f, code, "%s", message != NULL ? message : sp_error_info(code)->text);
    } else {
        (void) client_fail(f, code, "%s answered %d and gave no reason", a->peer, a->status);
    }
    if (f != NULL) {
        str_copy_cut(f->name, sizeof(f->name), name != NULL ? name : "");
        f->http_status = a->status;
        f->retry_after_ms = retry_ms;
    }
    (void) json_doc_free(doc);
    return code;
}
