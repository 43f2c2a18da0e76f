/* session.c - the table of sessions, for both kinds of them. */
#include "agent/core/session.h"

#include <string.h>

#include "base/rand.h"
#include "base/str.h"

int session_check_id(const char *id, struct err *err)
{
    if (id == NULL || str_is_name(id, SESSION_ID_MAX, "-_.:"))
        return SP_OK;
    return err_set(err, SP_INVALID_FIELD,
                   "a session's id is 1 to %d letters, digits and -_.:", (int) SESSION_ID_MAX);
}

void session_add(struct session *s, struct list *table, const struct rt *rt, const char *id)
{
    uint64_t number;

    rand_secure(&number, sizeof(number));
    str_hex64(s->id, number);
    if (id != NULL)
        str_copy_cut(s->id, sizeof(s->id), id);
    s->created_ns = rt_now(rt);
    s->used_ns = s->created_ns;
    list_push_back(table, &s->link);
}

struct session *session_find(struct list *table, const struct rt *rt, const char *id)
{
    for (struct list_node *n = list_first(table); n != NULL; n = list_next(table, n)) {
        struct session *s = container_of(n, struct session, link);

        if (strcmp(s->id, id) != 0)
            continue;
        list_remove(table, &s->link);
        list_push_back(table, &s->link);
        s->used_ns = rt_now(rt);
        return s;
    }
    return NULL;
}
