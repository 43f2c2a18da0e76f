/* plan_gather.c - the plan of `gather`, and what all plans begin with. */
#include "helper/plan_field.h"
#include "helper/plan_read.h"

int plan_parse(struct plan *p, const char *text, size_t len, const struct json **ret,
               struct err *err)
{
    *p = (struct plan){0};
    p->doc = json_parse(text, len, PLAN_TEXT_MAX, err);
    if (p->doc == NULL)
        return err->code;
    *ret = json_root(p->doc);
    if (!json_is_obj(*ret))
        return err_set(err, SP_BAD_REQUEST, "a plan is a JSON object");
    return SP_OK;
}

static int get_from(const struct json *obj, struct plan *p, struct err *err)
{
    const struct json *list;
    int rc = plan_get_list(obj, "from", PLAN_LAYERS_MAX, &list, &p->from_count, err);

    for (size_t i = 0; rc == SP_OK && i < p->from_count; i++) {
        p->from[i] = json_str(json_at(list, i));
        if (p->from[i] == NULL || !plan_is_clean_path(p->from[i]))
            rc = err_set(err, SP_INVALID_FIELD, "'from' must be a list of absolute paths");
    }
    if (rc == SP_OK && p->from_count == 0)
        rc = err_set(err, SP_INVALID_FIELD, "'from' is missing");
    return rc;
}

int plan_read_gather(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    uint32_t pid = 0;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK || (rc = get_from(o, p, err)) != SP_OK ||
        (rc = plan_need_path(o, "to", &p->to, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (json_get(o, "reserve") == NULL || !json_u64(json_get(o, "reserve"), &p->reserve))
        return err_set(err, SP_INVALID_FIELD, "plan: 'reserve' is missing");
    if (json_get(o, "container") == NULL)
        return SP_OK;
    if ((rc = plan_get_box(o, p, err)) != SP_OK ||
        (rc = plan_need_u32(o, "pid", 2, INT32_MAX, &pid, err)) != SP_OK)
        return err_wrap(err, "plan");
    p->pid = (int) pid;
    return SP_OK;
}
