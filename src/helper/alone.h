/* alone.h - a directory of a box that is of its upper layer alone. */
#ifndef HELPER_ALONE_H
#define HELPER_ALONE_H

#include "base/err.h"

/* Makes the directory anew where it is empty or has a few small files only. The kernel keeps a list of the names of a
 * directory that both layers have, for everybody who has it open and has seen other names, in memory that is
 * charged to nobody: those that the box's user can write shall not be such. Owner and mode are to be set
 * then. One that has more in it stays as it is. */
MUST_CHECK int alone_make(int root, const char *path, struct err *err);

#endif
