/* image_user.h - the user of a box in an image that does not know him. */
#ifndef OCI_IMAGE_USER_H
#define OCI_IMAGE_USER_H

#include "base/err.h"

/* Adds `user` to etc/passwd and etc/group of the tree, unless such a name is there already; makes
 * the files if need be. Nothing outside the tree is touched, whatever links it holds. `root` is
 * always 0. On any thread. */
MUST_CHECK int image_user_add(const char *rootfs, const char *user, unsigned id, struct err *err);

#endif
