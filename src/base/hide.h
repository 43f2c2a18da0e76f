/* hide.h - what went wrong, without where on the host it did: for those who may not know. */
#ifndef BASE_HIDE_H
#define BASE_HIDE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Whether messages with this code are about the machine, and so may name files of it. */
bool hide_is_due(int code);

/* Appends the text with each absolute path of two parts or more as its last part: '/var/lib/x/disk' is '…/disk'. Paths
 * that end in quotes may have spaces. URLs stay, and so do the API's own paths (/v1/). */
void hide_paths(struct buf *out, const char *text, size_t len);

#endif
