/* env.h - the variables that programs of a box begin with. */
#ifndef OCI_ENV_H
#define OCI_ENV_H

#include "base/json.h"

struct oci_env {
    char **items; /* NAME=value */
    size_t count;
    size_t cap;
};

/* Those of every box of this user, and of its image (ends with NULL, or is NULL). */
void oci_env_begin(struct oci_env *e, const char *user, const char *const *image_env);
/* One of the same name is replaced where it stands. */
void oci_env_set(struct oci_env *e, const char *name, const char *value);
/* As a list, and frees them. */
void oci_env_put(struct oci_env *e, const char *key, struct json_out *o);

#endif
