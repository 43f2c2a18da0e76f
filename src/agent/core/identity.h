/* identity.h - who commands and file operations are: a user of the box, found in its own
 * /etc/passwd and /etc/group.
 *
 * The agent of a box is root there. What it starts (commands, and helpers for file calls) becomes the
 * user for good, so that the kernel itself decides what the user may do and what is made belongs to the
 * user. Only while it makes the streams of a command does the agent itself act as the user. */
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
    bool must_set; /* a program that is started has to become it */
};

/* Whoever the agent runs as, at home in `home` (NULL: where /etc/passwd says). */
void identity_own(struct identity *ret, const char *home);
/* By name. `user` is 1000 with /home/user where /etc/passwd does not know it. SP_INVALID_FIELD:
 * no such user; SP_FORBIDDEN: the agent is not root, and this is not who it runs as. */
MUST_CHECK int identity_find(const char *name, struct identity *ret, struct err *err);
/* The same with `passwd` and `group` in another directory, and without a look at who runs. */
MUST_CHECK int identity_find_in(const char *dir, const char *name, struct identity *ret,
                                struct err *err);

/* The agent takes over the groups of its user, before there are threads: they go with every file
 * operation and give nothing to root. */
MUST_CHECK int identity_share_groups(const struct identity *id, struct err *err);

/* From here to identity_leave() this thread's file operations are the user's. 0 or errno: then
 * nothing has changed. Does not nest. */
MUST_CHECK int identity_enter(const struct identity *id);
void identity_leave(const struct identity *id);

/* In a new process that shares the memory of the agent: system calls only. 0 or errno. */
int identity_become(const struct identity *id);

/* As access(2), for whoever this thread is at the moment. 0 or errno. */
int identity_access(const char *path, int mode);

#endif
