/* plan_field.c - members of a plan, each checked for its shape. */
#include "helper/plan_field.h"

#include <string.h>

#include "base/mem.h"
#include "helper/plan_read.h"

bool plan_is_clean_path(const char *s)
{
    if (s[0] != '/')
        return false;
    if (s[1] == '\0')
        return true;
    for (;;) {
        size_t len = strcspn(s + 1, "/");

        if (len == 0 || (len == 1 && s[1] == '.') || (len == 2 && s[1] == '.' && s[2] == '.'))
            return false;
        s += 1 + len;
        if (*s == '\0')
            return true;
    }
}

int plan_need_str(const struct json *obj, const char *key, size_t max, const char **ret,
                  struct err *err)
{
    int rc = json_field_str(obj, key, max, ret, err);

    if (rc == SP_OK && *ret == NULL)
        return err_set(err, SP_INVALID_FIELD, "'%s' is missing", key);
    return rc;
}

int plan_get_path(const struct json *obj, const char *key, const char **ret, struct err *err)
{
    int rc = json_field_str(obj, key, PLAN_PATH_MAX, ret, err);

    if (rc == SP_OK && *ret != NULL && !plan_is_clean_path(*ret))
        return err_set(err, SP_INVALID_FIELD,
                       "'%s' must be an absolute path without '.', '..' or '//': '%.100s'", key,
                       *ret);
    return rc;
}

int plan_need_path(const struct json *obj, const char *key, const char **ret, struct err *err)
{
    int rc = plan_get_path(obj, key, ret, err);

    if (rc == SP_OK && *ret == NULL)
        return err_set(err, SP_INVALID_FIELD, "'%s' is missing", key);
    if (rc == SP_OK && (*ret)[1] == '\0')
        return err_set(err, SP_INVALID_FIELD, "'%s' must not be '/'", key);
    return rc;
}

int plan_need_u32(const struct json *obj, const char *key, uint64_t min, uint64_t max,
                  uint32_t *ret, struct err *err)
{
    uint64_t v = UINT64_MAX;
    int rc = json_field_u64(obj, key, min, max, &v, err);

    if (rc == SP_OK && v == UINT64_MAX)
        return err_set(err, SP_INVALID_FIELD, "'%s' is missing", key);
    if (rc == SP_OK)
        *ret = (uint32_t) v;
    return rc;
}

/* *ret is NULL when the list is absent. */
int plan_get_list(const struct json *obj, const char *key, size_t max, const struct json **ret,
                  size_t *ret_len, struct err *err)
{
    const struct json *v = json_get(obj, key);

    *ret = NULL;
    *ret_len = 0;
    if (v == NULL || json_is_null(v))
        return SP_OK;
    if (!json_is_arr(v))
        return err_set(err, SP_INVALID_FIELD, "'%s' must be a list", key);
    if (json_len(v) > max)
        return err_set(err, SP_INVALID_FIELD, "'%s' has more than %zu entries", key, max);
    *ret = v;
    *ret_len = json_len(v);
    return SP_OK;
}

void *plan_get_entries(const struct json *obj, const struct plan *p,
                       const struct plan_entries *kind, size_t *ret_count, int *rc, struct err *err)
{
    const struct json *list;
    char *entries;
    size_t len;

    *rc = plan_get_list(obj, kind->key, PLAN_LIST_MAX, &list, &len, err);
    if (*rc != SP_OK || list == NULL)
        return NULL;
    entries = xcalloc(len + 1, kind->size);
    for (size_t i = 0; *rc == SP_OK && i < len; i++)
        if ((*rc = kind->read(json_at(list, i), p, entries + i * kind->size, err)) != SP_OK)
            *rc = err_wrap(err, "entry %zu of '%s'", i, kind->key);
    *ret_count = *rc == SP_OK ? len : 0;
    return entries;
}

int plan_get_args(const struct json *obj, const char *key, const char ***ret, struct err *err)
{
    const struct json *list;
    size_t len;
    int rc = plan_get_list(obj, key, PLAN_ARGS_MAX, &list, &len, err);

    if (rc != SP_OK || list == NULL)
        return rc;
    *ret = xcalloc(len + 1, sizeof(**ret));
    for (size_t i = 0; i < len; i++) {
        (*ret)[i] = json_str(json_at(list, i));
        if ((*ret)[i] == NULL)
            return err_set(err, SP_INVALID_FIELD, "'%s' must be a list of strings", key);
    }
    if (len == 0 || !plan_is_clean_path((*ret)[0]))
        return err_set(err, SP_INVALID_FIELD, "'%s' must begin with the path of a program", key);
    return SP_OK;
}
