/* json_field.c - typed, bounded access to the fields of an object, with errors that name them. */
#include <string.h>

#include "base/json.h"

static const struct json *present(const struct json *obj, const char *key)
{
    const struct json *v = json_get(obj, key);

    return v == NULL || json_is_null(v) ? NULL : v;
}

int json_field_str(const struct json *obj, const char *key, size_t max_len, const char **ret,
                   struct err *err)
{
    const struct json *v = present(obj, key);

    if (v == NULL)
        return SP_OK;
    if (!json_is_str(v))
        return err_set(err, SP_INVALID_FIELD, "'%s' must be a string", key);
    if (strlen(json_str(v)) > max_len)
        return err_set(err, SP_INVALID_FIELD, "'%s' is longer than %zu characters", key, max_len);
    *ret = json_str(v);
    return SP_OK;
}

int json_field_u64(const struct json *obj, const char *key, uint64_t min, uint64_t max,
                   uint64_t *ret, struct err *err)
{
    const struct json *v = present(obj, key);
    uint64_t n;

    if (v == NULL)
        return SP_OK;
    if (!json_u64(v, &n) || n < min || n > max)
        return err_set(err, SP_INVALID_FIELD, "'%s' must be a whole number from %llu to %llu", key,
                       (unsigned long long) min, (unsigned long long) max);
    *ret = n;
    return SP_OK;
}

int json_field_bool(const struct json *obj, const char *key, bool *ret, struct err *err)
{
    const struct json *v = present(obj, key);

    if (v == NULL)
        return SP_OK;
    if (!json_is_bool(v))
        return err_set(err, SP_INVALID_FIELD, "'%s' must be true or false", key);
    *ret = json_bool(v);
    return SP_OK;
}

int json_field_obj(const struct json *obj, const char *key, const struct json **ret,
                   struct err *err)
{
    const struct json *v = present(obj, key);

    if (v == NULL)
        return SP_OK;
    if (!json_is_obj(v))
        return err_set(err, SP_INVALID_FIELD, "'%s' must be an object", key);
    *ret = v;
    return SP_OK;
}

int json_only_fields(const struct json *obj, const char *const *known, struct err *err)
{
    const char *key;
    const struct json *value;

    for (size_t i = 0; json_member(obj, i, &key, &value); i++) {
        const char *const *k = known;

        while (*k != NULL && strcmp(*k, key) != 0)
            k++;
        if (*k == NULL)
            return err_set(err, SP_INVALID_FIELD, "unknown field '%.60s'", key);
    }
    return SP_OK;
}
