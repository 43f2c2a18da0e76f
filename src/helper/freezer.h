/* freezer.h - lets all processes of a box stand still, and go on. */
#ifndef HELPER_FREEZER_H
#define HELPER_FREEZER_H

#include <stdbool.h>

#include "base/err.h"

/* Whether all of it stands still now. */
bool freezer_is_frozen(const char *cgroup);

/* Returns when it is so. Of version 1 or 2, whichever has a group of this name. SP_UNSUPPORTED: neither does. After an error
 * the processes go on. */
MUST_CHECK int freezer_set(const char *cgroup, bool is_frozen, struct err *err);

#endif
