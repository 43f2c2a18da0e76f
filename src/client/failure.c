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

/* Members that a newer daemon left out or changed are no reason to lose the rest. */
void client_read_error(const struct json *error, struct sp_failure *ret)
{
    const char *name = json_str(json_get(error, "code"));
    const char *message = json_str(json_get(error, "message"));
    int code = name != NULL ? sp_error_from_name(name) : SP_PROTOCOL;

    (void) client_fail(ret, code, "%s", message != NULL ? message : sp_error_info(code)->text);
    str_copy_cut(ret->name, sizeof(ret->name), name != NULL ? name : "");
    if (!json_u64(json_get(error, "retry_after_ms"), &ret->retry_after_ms))
        ret->retry_after_ms = 0;
}

int client_fail_http(struct sp_failure *f, const struct answer *a)
{
    struct json_doc *doc = json_parse(buf_str(&a->body), a->body.len, CLIENT_BODY_MAX, NULL);
    const struct json *error = json_get(json_root(doc), "error");
    struct sp_failure found;

    client_read_error(error, &found);
    if (str_is_empty(found.name))
        (void) client_fail(&found, SP_PROTOCOL, "%s answered %d and gave no reason", a->peer,
                           a->status);
    if (!json_is_num(json_get(error, "retry_after_ms")))
        found.retry_after_ms = a->retry_after_s * 1000;
    found.http_status = a->status;
    (void) json_doc_free(doc);
    if (f != NULL)
        *f = found;
    return found.code;
}
