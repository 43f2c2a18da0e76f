/* dirs.h - makes directories for the box's user where only root can make them. It blocks. */
#ifndef AGENT_FILE_DIRS_H
#define AGENT_FILE_DIRS_H

#include "agent/core/identity.h"

/* Makes every missing part of the absolute path; those above the last one belong to root. Links in
 * it are not followed: the user may have made them. 0 or errno. */
int file_make_dirs(const char *path, const struct identity *user);

#endif
