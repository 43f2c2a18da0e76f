/* plan_parse.h - what the readers of plans share. */
#ifndef HELPER_PLAN_PARSE_H
#define HELPER_PLAN_PARSE_H

#include "helper/plan_read.h"

/* Empties *ret and parses the text; *ret_obj belongs to it. */
MUST_CHECK int plan_parse(struct plan *ret, const char *text, size_t len,
                          const struct json **ret_obj, struct err *err);
MUST_CHECK int plan_get_layers(const struct json *obj, struct plan *ret, struct err *err);

#endif
