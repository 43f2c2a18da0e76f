/* registry.h - all backends, for the check of a configuration. */
#ifndef BACKENDS_REGISTRY_H
#define BACKENDS_REGISTRY_H

#include "backend/backend.h"

/* What the file alone cannot show: whether this machine has the programs that the profile names. A code
 * with the reason. */
MUST_CHECK int backend_check(const struct config_profile *p, struct err *err);

#endif
