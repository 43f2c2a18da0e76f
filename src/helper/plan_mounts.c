/* plan_mounts.c - what of the host a plan shows in a box, and where. */
#include "helper/plan_mounts.h"

#include <string.h>

#include "base/mem.h"
#include "helper/plan_field.h"

bool plan_path_is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    if (len == 1)
        return true;
    return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Where the box's own life hangs on what is there. */
static bool is_vital(const char *to)
{
    static const char *const vital[] = {"/proc", "/sys", "/dev", "/.sandpool"};

    for (size_t i = 0; i < ARRAY_LEN(vital); i++) {
        if (plan_path_is_below(to, vital[i]))
            return true;
    }
    return false;
}

static int get_base(const struct json *v, struct plan_mount *m, struct err *err)
{
    int rc = plan_get_path(v, "base", &m->base, err);

    if (rc == SP_OK)
        rc = json_field_str(v, "parts", PLAN_PATH_MAX, &m->parts, err);
    if (rc == SP_OK)
        rc = json_field_str(v, "holder", PLAN_PATH_MAX, &m->holder, err);
    if (rc != SP_OK || m->base == NULL)
        return rc;
    if (m->from == NULL || strcmp(m->from, m->base) == 0 || !plan_path_is_below(m->from, m->base))
        return err_set(err, SP_INVALID_FIELD, "'from' is not below 'base'");
    return SP_OK;
}

static bool is_below_closed(const struct plan_mount *m)
{
    for (size_t i = 0; i < m->closed_count; i++) {
        if (strcmp(m->own, m->closed[i]) != 0 && plan_path_is_below(m->own, m->closed[i]))
            return true;
    }
    return false;
}

static int get_closed(const struct json *v, struct plan_mount *m, struct err *err)
{
    const struct json *list;
    int rc = plan_get_list(v, "closed", PLAN_CLOSED_MAX, &list, &m->closed_count, err);

    for (size_t i = 0; rc == SP_OK && i < m->closed_count; i++) {
        m->closed[i] = json_str(json_at(list, i));
        if (m->closed[i] == NULL || !plan_is_clean_path(m->closed[i]))
            rc = err_set(err, SP_INVALID_FIELD, "'closed' must be a list of absolute paths");
    }
    if (rc == SP_OK)
        rc = plan_get_path(v, "own", &m->own, err);
    if (rc == SP_OK && m->own != NULL && !is_below_closed(m))
        rc = err_set(err, SP_INVALID_FIELD, "'own' is not below 'closed'");
    return rc;
}

int plan_get_mounts(const struct json *obj, const char *key, bool is_own, bool may_lack,
                    struct plan_mount **ret, size_t *ret_count, struct err *err)
{
    const struct json *list;
    size_t len;
    int rc = plan_get_list(obj, key, PLAN_LIST_MAX, &list, &len, err);

    if (rc != SP_OK || list == NULL)
        return rc;
    *ret = xcalloc(len + 1, sizeof(**ret));
    for (size_t i = 0; i < len; i++) {
        const struct json *v = json_at(list, i);
        struct plan_mount *m = &(*ret)[i];

        if (!json_is_obj(v))
            return err_set(err, SP_INVALID_FIELD, "'%s' must be a list of objects", key);
        if ((rc = plan_get_path(v, "from", &m->from, err)) != SP_OK ||
            (rc = plan_need_path(v, "to", &m->to, err)) != SP_OK ||
            (rc = json_field_bool(v, "ro", &m->is_ro, err)) != SP_OK)
            return err_wrap(err, "entry %zu of '%s'", i, key);
        if (m->from == NULL && !may_lack)
            return err_set(err, SP_INVALID_FIELD, "entry %zu of '%s': 'from' is missing", i, key);
        if (!is_own &&
            ((rc = get_base(v, m, err)) != SP_OK || (rc = get_closed(v, m, err)) != SP_OK))
            return err_wrap(err, "entry %zu of '%s'", i, key);
        if (!is_own && is_vital(m->to))
            return err_set(err, SP_INVALID_FIELD, "nothing can be mounted at '%.100s'", m->to);
    }
    *ret_count = len;
    return SP_OK;
}
