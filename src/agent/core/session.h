/* session.h - what both kinds of sessions (shell/) have in common: a name in a table, and the time
 * of last use. Must be their first member. */
#ifndef AGENT_CORE_SESSION_H
#define AGENT_CORE_SESSION_H

#include "base/err.h"
#include "base/list.h"
#include "base/rt.h"

enum { SESSION_ID_MAX = 64 };

struct session {
    struct list_node link; /* least recently used first */
    char id[SESSION_ID_MAX + 1];
    uint64_t created_ns;
    uint64_t used_ns;
};

/* NULL is fine: an id will be generated. */
MUST_CHECK int session_check_id(const char *id, struct err *err);
/* Names a new one and puts it into the table. */
void session_add(struct session *s, struct list *table, const struct rt *rt, const char *id);
/* NULL when there is none. Counts as use. */
struct session *session_find(struct list *table, const struct rt *rt, const char *id);

#endif
