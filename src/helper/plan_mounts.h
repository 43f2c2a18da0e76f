/* plan_mounts.h - the mounts of a plan. */
#ifndef HELPER_PLAN_MOUNTS_H
#define HELPER_PLAN_MOUNTS_H

#include "base/json.h"
#include "helper/plan_read.h"

/* `is_own`: what the daemon itself wants; `may_lack`: "from", of directories in the box. */
MUST_CHECK int plan_get_mounts(const struct json *obj, const char *key, bool is_own, bool may_lack,
                               struct plan_mount **ret, size_t *ret_count, struct err *err);
MUST_CHECK int plan_get_allow(const struct json *obj, struct plan *p, struct err *err);

#endif
