/* dirs.h - directories for the box's user, where only root could make them. It blocks. */
#ifndef AGENT_FILE_DIRS_H
#define AGENT_FILE_DIRS_H

#include "agent/core/identity.h"

/* Every name of the absolute path, those above the last one as root's. Links in it are not followed: the user
 * may have made them. 0 or errno. */
int file_make_dirs(const char *path, const struct identity *user);

#endif
