/* plan_field.h - members of a plan, each checked for its shape. Texts belong to the document; what is absent is NULL, and
 * the `need` forms refuse that. */
#ifndef HELPER_PLAN_FIELD_H
#define HELPER_PLAN_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/* Absolute, without '.', '..' and '//'. */
bool plan_is_clean_path(const char *s);
MUST_CHECK int plan_need_str(const struct json *obj, const char *key, size_t max, const char **ret,
                             struct err *err);
MUST_CHECK int plan_get_path(const struct json *obj, const char *key, const char **ret,
                             struct err *err);
/* Not "/". */
MUST_CHECK int plan_need_path(const struct json *obj, const char *key, const char **ret,
                              struct err *err);
MUST_CHECK int plan_need_u32(const struct json *obj, const char *key, uint64_t min, uint64_t max,
                             uint32_t *ret, struct err *err);
MUST_CHECK int plan_get_list(const struct json *obj, const char *key, size_t max,
                             const struct json **ret, size_t *ret_len, struct err *err);
struct plan;
struct plan_entries {
    const char *key;
    size_t size; /* of an entry */
    int (*read)(const struct json *v, const struct plan *p, void *ret, struct err *err);
};
/* A list of such entries and how many they are; NULL when it is absent. *rc, which is SP_OK before, becomes the error; the
 * caller frees the list then, too. */
MUST_CHECK void *plan_get_entries(const struct json *obj, const struct plan *p,
                                  const struct plan_entries *kind, size_t *ret_count, int *rc,
                                  struct err *err);
/* A program and its arguments, with a NULL behind them; the caller frees the list. */
MUST_CHECK int plan_get_args(const struct json *obj, const char *key, const char ***ret,
                             struct err *err);

#endif
