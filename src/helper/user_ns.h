/* user_ns.h - boxes of an ordinary user: root and a range of ids in a user namespace stand for what
 * the kernel asks of root, as far as it lets them. */
#ifndef HELPER_USER_NS_H
#define HELPER_USER_NS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "helper/plan_read.h"

/* Nothing for root. Else this process becomes root of a new user namespace with ids from 0:
 * `want` of them, or (0) as many as can be had. SP_UNSUPPORTED says what is missing. */
MUST_CHECK int user_ns_enter(uint32_t want, struct err *err);
/* Makes the box's user namespace, if the plan has a place for it ("user_ns"), as the box's own root:
 * what the kernel counts per user is then the box's, not that of this machine's root and all boxes. */
MUST_CHECK int user_ns_place(const struct plan *p, struct err *err);
/* For a runtime that gives the box's kernel to nobody (65534) of where it runs, and so to the same user in all
 * boxes: this process, which is root, goes into a user namespace in which nobody is the last id of the
 * box's range. It has root's rights over what is the box's there, and none over the machine. */
MUST_CHECK int user_ns_own_nobody(const struct plan *p, struct err *err);
/* True after an ordinary user has entered one. */
bool user_ns_is_entered(void);
/* Ids there are: 1, 65536, or UINT32_MAX for root. */
uint32_t user_ns_count(void);

#endif
