/* registry.h - the names of all backends, for the configuration's check. */
#ifndef BACKEND_REGISTRY_H
#define BACKEND_REGISTRY_H

#include "backend/backend.h"

/* Ends with NULL; static. */
const char *const *backend_names(void);

#endif
