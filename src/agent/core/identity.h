/* identity.h - the user that runs commands and file operations: a user of the box, found in its own
 * /etc/passwd and /etc/group.
 *
 * The agent of a box is root there. What it starts (commands, and helpers for file calls) switches
 * to the user permanently, so that the kernel enforces the user's permissions and new files belong
 * to the user. The agent itself acts as the user only while it makes the streams of a command. */
#ifndef AGENT_CORE_IDENTITY_H
#define AGENT_CORE_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

enum { IDENTITY_NAME_MAX = 64, IDENTITY_GROUPS_MAX = 64, IDENTITY_HOME_MAX = 256 };

struct identity {
    char name[IDENTITY_NAME_MAX];
    char home[IDENTITY_HOME_MAX];
    uid_t uid;
    gid_t gid;
    gid_t groups[IDENTITY_GROUPS_MAX]; /* with gid */
    size_t group_count;
    bool must_set; /* a started program has to switch to it */
};

/* The user that the agent runs as, with `home` as its home (NULL: from /etc/passwd). */
void identity_own(struct identity *ret, const char *home);
/* By name. `user` is 1000 with /home/user if /etc/passwd does not contain it. SP_INVALID_FIELD: no
 * such user; SP_FORBIDDEN: the agent is not root, and this is not the user it runs as. */
MUST_CHECK int identity_find(const char *name, struct identity *ret, struct err *err);
/* The same with `passwd` and `group` in another directory, and without checking the agent's own
 * user. */
MUST_CHECK int identity_find_in(const char *dir, const char *name, struct identity *ret,
                                struct err *err);

/* The agent joins the groups of its user, before there are threads: they apply to every file
 * operation and give root nothing. */
MUST_CHECK int identity_share_groups(const struct identity *id, struct err *err);

/* From here to identity_leave() this thread's file operations are done as the user. 0 or errno:
 * then nothing has changed. Does not nest. */
MUST_CHECK int identity_enter(const struct identity *id);
void identity_leave(const struct identity *id);

/* In a new process that shares the memory of the agent: system calls only. 0 or errno. */
int identity_become(const struct identity *id);

/* As access(2), for the user that this thread acts as at the moment. 0 or errno. */
int identity_access(const char *path, int mode);

#endif
