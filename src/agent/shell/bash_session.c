/* bash_session.c - the table of bash sessions. */
#include "agent/shell/bash_session.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static struct bash_session *of(struct list_node *n)
{
    return n != NULL ? container_of(n, struct bash_session, session.link) : NULL;
}

struct bash_session *bash_session_find(struct agent *a, const char *id)
{
    struct session *s = session_find(&a->bash_sessions, &a->loop.rt, id);

    return s != NULL ? of(&s->link) : NULL;
}

struct process *bash_session_command(struct agent *a, const struct bash_session *s, uint64_t id)
{
    struct process *p = process_find(a->processes, id != 0 ? id : s->last_command);

    return p != NULL && p->session != NULL && strcmp(p->session, s->session.id) == 0 ? p : NULL;
}

static bool is_busy(struct agent *a, const struct bash_session *s)
{
    const struct process *p = bash_session_command(a, s, 0);

    return p != NULL && process_is_running(p);
}

static bool make_room(struct agent *a)
{
    struct list *l = &a->bash_sessions;

    if (l->len < BASH_SESSIONS_MAX)
        return true;
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        struct bash_session *s = of(n);

        if (is_busy(a, s))
            continue;
        bash_session_close(a, s);
        return true;
    }
    return false;
}

int bash_session_open(struct agent *a, const char *id, const char *exec_dir,
                      struct bash_session **ret, struct err *err)
{
    struct bash_session *s;
    int rc = session_check_id(id, err);

    if (rc != SP_OK)
        return rc;
    if (!make_room(a))
        return err_set(err, SP_QUEUE_FULL, "all %d sessions run a command",
                       (int) BASH_SESSIONS_MAX);
    s = xcalloc(1, sizeof(*s));
    if (exec_dir != NULL && !str_copy(s->exec_dir, sizeof(s->exec_dir), exec_dir)) {
        free(s);
        return err_set(err, SP_INVALID_FIELD, "'exec_dir' is too long");
    }
    session_add(&s->session, &a->bash_sessions, &a->loop.rt, id);
    *ret = s;
    return SP_OK;
}

void bash_session_close(struct agent *a, struct bash_session *s)
{
    struct list *l = &a->processes->running;

    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        struct process *p = container_of(n, struct process, link);

        if (p->session != NULL && strcmp(p->session, s->session.id) == 0)
            process_kill(p);
    }
    list_remove(&a->bash_sessions, &s->session.link);
    free(s);
}

void bash_sessions_free(struct agent *a)
{
    struct list_node *n;

    while ((n = list_pop_front(&a->bash_sessions)) != NULL)
        bash_session_close(a, of(n));
}
