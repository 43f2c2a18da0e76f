/* plan_layers.c - plans for snapshots: their layers merged, as a file that leaves, or from one that comes. */
#include <string.h>

#include "base/mem.h"
#include "helper/plan_field.h"
#include "helper/plan_read.h"

#define ABOUT_MAX (32u * 1024)
#define CONFIG_MAX (256u * 1024)
#define NAME_MAX_LEN 128u

int plan_get_layers(const struct json *obj, struct plan *p, struct err *err)
{
    const struct json *list;
    size_t len;
    int rc = plan_get_list(obj, "layers", PLAN_LAYERS_MAX, &list, &len, err);

    if (rc != SP_OK || list == NULL)
        return rc;
    p->layers = xcalloc(len + 1, sizeof(*p->layers));
    for (size_t i = 0; rc == SP_OK && i < len; i++) {
        const struct json *v = json_at(list, i);

        if (!json_is_obj(v))
            return err_set(err, SP_INVALID_FIELD, "'layers' must be a list of objects");
        if ((rc = plan_need_path(v, "disk", &p->layers[i].disk, err)) == SP_OK)
            rc = plan_need_u32(v, "id_base", 0, UINT32_MAX - 65536, &p->layers[i].id_base, err);
        p->layer_count++;
    }
    return rc;
}

int plan_read_flatten(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "to", &p->to, err)) != SP_OK ||
        (rc = plan_need_path(o, "stage", &p->stage, err)) != SP_OK ||
        (rc = plan_need_u32(o, "id_base", 0, UINT32_MAX - 65536, &p->id_base, err)) != SP_OK ||
        (rc = plan_get_layers(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (p->layer_count == 0 || json_get(o, "reserve") == NULL ||
        !json_u64(json_get(o, "reserve"), &p->reserve))
        return err_set(err, SP_INVALID_FIELD, "plan: 'layers' or 'reserve' is missing");
    return SP_OK;
}

int plan_read_pack(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "stage", &p->stage, err)) != SP_OK ||
        (rc = plan_get_path(o, "lower", &p->lower, err)) != SP_OK ||
        (rc = plan_need_str(o, "about", ABOUT_MAX, &p->about, err)) != SP_OK ||
        (rc = plan_get_layers(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    return p->layer_count > 0 ? SP_OK : err_set(err, SP_INVALID_FIELD, "plan: 'layers' is missing");
}

static int get_host(const struct json *obj, struct plan *p, struct err *err)
{
    const struct json *list;
    size_t len;
    int rc = plan_get_list(obj, "host", PLAN_LAYERS_MAX, &list, &len, err);

    for (size_t i = 0; rc == SP_OK && list != NULL && i < len; i++) {
        const char *path = json_str(json_at(list, i));

        if (path == NULL || !plan_is_clean_path(path) || path[1] == '\0')
            return err_set(err, SP_INVALID_FIELD, "'host' must be a list of absolute paths");
        p->from[p->from_count++] = path;
    }
    return rc;
}

/* What an image is called, and how large it may be. */
static int get_image(const struct json *o, struct plan *p, struct err *err)
{
    int rc;

    if ((rc = plan_need_str(o, "name", NAME_MAX_LEN, &p->name, err)) != SP_OK ||
        (rc = plan_need_str(o, "created", NAME_MAX_LEN, &p->created, err)) != SP_OK)
        return rc;
    if (strrchr(p->name, ':') == NULL || json_get(o, "max_bytes") == NULL ||
        !json_u64(json_get(o, "max_bytes"), &p->max_bytes))
        return err_set(err, SP_INVALID_FIELD, "'max_bytes' or the tag in 'name' is missing");
    return SP_OK;
}

int plan_read_image(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "stage", &p->stage, err)) != SP_OK ||
        (rc = plan_need_path(o, "lower", &p->lower, err)) != SP_OK ||
        (rc = plan_need_str(o, "config", CONFIG_MAX, &p->about, err)) != SP_OK ||
        (rc = get_image(o, p, err)) != SP_OK || (rc = get_host(o, p, err)) != SP_OK ||
        (rc = plan_get_layers(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    return p->layer_count > 0 ? SP_OK : err_set(err, SP_INVALID_FIELD, "plan: 'layers' is missing");
}

int plan_read_repack(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "dir", &p->dir, err)) != SP_OK ||
        (rc = get_image(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (json_get(o, "about") != NULL &&
        (rc = plan_need_str(o, "about", ABOUT_MAX, &p->about, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (json_get(o, "reserve") == NULL || !json_u64(json_get(o, "reserve"), &p->reserve))
        return err_set(err, SP_INVALID_FIELD, "plan: 'reserve' is missing");
    return SP_OK;
}

int plan_read_load(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_str(o, "labels", CONFIG_MAX, &p->about, err)) != SP_OK ||
        (rc = get_image(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    return SP_OK;
}

int plan_read_unpack(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "to", &p->to, err)) != SP_OK ||
        (rc = plan_need_path(o, "stage", &p->stage, err)) != SP_OK ||
        (rc = plan_get_path(o, "lower", &p->lower, err)) != SP_OK ||
        (rc = json_field_bool(o, "any_base", &p->is_any_base, err)) != SP_OK ||
        (rc = plan_need_u32(o, "id_base", 0, UINT32_MAX - 65536, &p->id_base, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (json_get(o, "reserve") == NULL || !json_u64(json_get(o, "reserve"), &p->reserve) ||
        json_get(o, "max_bytes") == NULL || !json_u64(json_get(o, "max_bytes"), &p->max_bytes))
        return err_set(err, SP_INVALID_FIELD, "plan: 'reserve' or 'max_bytes' is missing");
    return SP_OK;
}
