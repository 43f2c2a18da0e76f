/* attrs.h - extended attributes of files of a box, with ids as in the box: user.*, POSIX access lists and file capabilities. Others
 * are the host's or the kernel's and stay out. */
#ifndef HELPER_ATTRS_H
#define HELPER_ATTRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { ATTR_NAME_MAX = 255, ATTR_VALUE_MAX = 65536 };

/* Each of `name` in the directory; `value` may be changed by the callee. */
MUST_CHECK int attrs_read(int dir, const char *name, uint32_t id_base,
                          int (*each)(void *ctx, const char *attr, unsigned char *value, size_t len,
                                      struct err *err),
                          void *ctx, struct err *err);
/* The same attributes, with ids as they are. */
MUST_CHECK int attrs_copy(int dir, const char *name, int to_dir, const char *to_name,
                          struct err *err);
/* SP_INVALID_FIELD: no such attribute is set on files of boxes. */
MUST_CHECK int attrs_set(int dir, const char *name, uint32_t id_base, const char *attr,
                         unsigned char *value, size_t len, struct err *err);

#endif
