/* envelope.c - answers of the sandbox API. Its clients check "success" first, so every error answer
 * made here has it, whatever the status. */
#include "agent/aio/envelope.h"

#include "base/str.h"

#define SECONDS_MAX (7.0 * 24 * 3600)

static void put_head(struct json_out *o, bool is_ok, const char *message)
{
    json_out_init(o);
    json_begin_obj(o, NULL);
    json_put_bool(o, "success", is_ok);
    json_put_str(o, "message", message);
}

void envelope_ok_begin(struct json_out *o, const char *message)
{
    put_head(o, true, message);
    json_begin_obj(o, "data");
}

void envelope_ok_begin_list(struct json_out *o, const char *message)
{
    put_head(o, true, message);
    json_begin_arr(o, "data");
}

void envelope_ok_close(struct json_out *o)
{
    json_end(o);
    json_put_null(o, "hint");
    json_end(o);
}

void envelope_ok_end(struct http_exchange *ex, struct json_out *o)
{
    envelope_ok_close(o);
    http_reply_json(ex, 200, o);
}

void envelope_ok_empty(struct http_exchange *ex, const char *message)
{
    struct json_out o;

    put_head(&o, true, message);
    json_put_null(&o, "data");
    json_put_null(&o, "hint");
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static void put_detail(struct json_out *o, const char *message)
{
    json_begin_arr(o, "detail");
    json_begin_obj(o, NULL);
    json_begin_arr(o, "loc");
    json_put_str(o, NULL, "body");
    json_end(o);
    json_put_str(o, "msg", message);
    json_put_str(o, "type", "value_error");
    json_end(o);
    json_end(o);
}

static void put_fail(struct json_out *o, int http_status, const char *message)
{
    put_head(o, false, message);
    json_put_null(o, "data");
    json_put_null(o, "hint");
    if (http_status == 422)
        put_detail(o, message);
    json_end(o);
}

void envelope_fail(struct http_exchange *ex, int http_status, const char *message)
{
    struct json_out o;

    put_fail(&o, http_status, message);
    http_reply_json(ex, http_status, &o);
}

static int status_of(const struct err *err)
{
    int status = sp_error_info(err_for_caller(err->code))->http_status;

    if (err->code == SP_BAD_REQUEST)
        return 422;
    return status != 0 ? status : 500;
}

void envelope_fail_err(struct http_exchange *ex, const struct err *err)
{
    envelope_fail(ex, status_of(err), err->msg);
}

int envelope_print_err(struct buf *out, const struct err *err)
{
    int status = status_of(err);
    struct json_out o;

    put_fail(&o, status, err->msg);
    json_out_finish(&o, out);
    return status;
}

struct json_doc *envelope_read(struct http_exchange *ex)
{
    struct err err;
    size_t len = 0;
    const char *body = http_body(ex, &len);
    struct json_doc *doc;

    if (len == 0) {
        body = "{}";
        len = 2;
    }
    doc = json_parse(body, len, len, &err);
    if (doc != NULL && !json_is_obj(json_root(doc))) {
        (void) err_set(&err, SP_INVALID_FIELD, "the body must be a JSON object");
        doc = json_doc_free(doc);
    }
    if (doc == NULL)
        envelope_fail_err(ex, &err);
    return doc;
}

int envelope_field_seconds(const struct json *obj, const char *key, uint64_t *ret_ns,
                           struct err *err)
{
    const struct json *v = json_get(obj, key);
    double seconds;

    if (v == NULL || json_is_null(v))
        return SP_OK;
    seconds = json_is_num(v) ? json_num(v) : -1;
    if (!(seconds >= 0) || seconds > SECONDS_MAX)
        return err_set(err, SP_INVALID_FIELD, "'%s' must be seconds from 0 to a week", key);
    *ret_ns = (uint64_t) (seconds * (double) NS_PER_S);
    return SP_OK;
}

int envelope_need_str(const struct json *obj, const char *key, size_t max_len, const char **ret,
                      struct err *err)
{
    int r;

    *ret = NULL;
    r = json_field_str(obj, key, max_len, ret, err);
    if (r != SP_OK)
        return r;
    if (*ret == NULL || str_is_empty(*ret))
        return err_set(err, SP_INVALID_FIELD, "'%s' is required", key);
    return SP_OK;
}

static int read_field(const struct json *obj, const struct envelope_field *f, struct err *err)
{
    if (f->text != NULL && f->is_needed)
        return envelope_need_str(obj, f->key, f->max, f->text, err);
    if (f->text != NULL)
        return json_field_str(obj, f->key, f->max, f->text, err);
    if (f->flag != NULL)
        return json_field_bool(obj, f->key, f->flag, err);
    if (f->number != NULL)
        return json_field_u64(obj, f->key, 0, f->max, f->number, err);
    if (f->seconds_ns != NULL)
        return envelope_field_seconds(obj, f->key, f->seconds_ns, err);
    assert(f->object != NULL);
    return json_field_obj(obj, f->key, f->object, err);
}

int envelope_fields(const struct json *obj, const struct envelope_field *fields, struct err *err)
{
    int rc = SP_OK;

    for (; fields->key != NULL && rc == SP_OK; fields++)
        rc = read_field(obj, fields, err);
    return rc;
}

void envelope_call(struct http_exchange *ex,
                   int (*run)(struct http_exchange *ex, const struct json *root, struct err *err))
{
    struct json_doc *doc = envelope_read(ex);
    struct err err;

    if (doc != NULL && run(ex, json_root(doc), &err) != SP_OK)
        envelope_fail_err(ex, &err);
    (void) json_doc_free(doc);
}
