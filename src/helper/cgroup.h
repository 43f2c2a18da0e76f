/* cgroup.h - what a box leaves in the cgroup hierarchies, v1 and v2. */
#ifndef HELPER_CGROUP_H
#define HELPER_CGROUP_H

#include <stdint.h>

#include "helper/plan_read.h"

/* Sends SIGKILL to every process in the cgroup or below. */
void cgroup_kill(const char *path);
/* How many processes of the box are in it: not what serves the box from outside, which is in it, too. */
unsigned cgroup_count(const char *path);
/* Removes it and what is below it from every hierarchy; empty ones only. Returns how many are gone;
 * *ret_left is how many could not be removed. */
unsigned cgroup_remove(const char *path, unsigned *ret_left);

/* Moves a process into it, in every hierarchy that has it. */
MUST_CHECK int cgroup_add(const char *path, int pid, struct err *err);

/* crun gives the group (version 2) to the box's root, so that it can make groups below. Then only the mount in the box,
 * which is read-only, would stand in between. Makes it ours again. */
MUST_CHECK int cgroup_take_back(const char *path, struct err *err);

/* Makes it, without limits, and moves a process (0: this one) into it where systemd looks for what belongs to a
 * service: `systemctl kill` of the daemon does not mean it. Where that is not allowed, nothing happens. */
void cgroup_place(const char *path, int pid);

/* Makes the plan's cgroup with its limits and moves this process into it, v1 and v2. */
MUST_CHECK int cgroup_join(const struct plan *p, struct err *err);

#endif
