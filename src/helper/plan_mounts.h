/* plan_mounts.h - what of the host a plan shows in a box. */
#ifndef HELPER_PLAN_MOUNTS_H
#define HELPER_PLAN_MOUNTS_H

#include "base/json.h"
#include "helper/plan_read.h"

/* `is_own`: what the daemon itself wants; `may_lack`: "from", of directories in the box. *ret is freed by plan_fini(). */
MUST_CHECK int plan_get_mounts(const struct json *obj, const char *key, bool is_own, bool may_lack,
                               struct plan_mount **ret, size_t *ret_count, struct err *err);

#endif
