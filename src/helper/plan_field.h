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
/* A program and its arguments, with a NULL behind them; the caller frees the list. */
MUST_CHECK int plan_get_args(const struct json *obj, const char *key, const char ***ret,
                             struct err *err);

#endif
