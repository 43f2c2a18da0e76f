/* api_activity.c - /v1/agent/activity: whether anything is at work in the box. The daemon asks this
 * before it ends an idle box, because not all use of a box passes through the daemon. Neither this
 * call nor a health probe counts as use. */
#include "agent/core/agent.h"
#include "agent/core/helper.h"
#include "agent/own/routes.h"
#include "agent/shell/shell_session.h"

/* A session's shell that waits for its next command does nothing; a file call is a request that is
 * being served. */
static bool is_spared(pid_t pid, void *ctx)
{
    const struct agent *a = ctx;

    for (struct list_node *n = list_first(&a->shell_sessions); n != NULL;
         n = list_next(&a->shell_sessions, n)) {
        const struct session *session = container_of(n, struct session, link);
        const struct shell_session *s = container_of(session, struct shell_session, session);
        const struct process *p = s->process.process;

        if (p != NULL && p->pid == pid && process_is_running(p))
            return s->status != SHELL_RUNNING;
    }
    return helper_is_mine(a->helpers, pid);
}

static void handle_activity(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct http_stats stats;
    struct json_out o;
    uint64_t last_ns;

    http_server_get_stats(a->server, &stats);
    last_ns = MAX_OF(MAX_OF(stats.used_ns, a->processes->ended_ns), a->started_ns);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "busy", stats.serving > 0 || descendants_has_own(is_spared, a));
    json_put_u64(&o, "idle_ms", (rt_now(&a->loop.rt) - last_ns) / NS_PER_MS);
    json_put_u64(&o, "requests", stats.serving);
    json_put_u64(&o, "processes", a->processes->running.len);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

const struct http_route own_activity_routes[] = {
    {HTTP_METHOD_GET, "/v1/agent/activity", handle_activity, HTTP_QUIET, 0,
     "whether anything is at work in the box"},
    {.pattern = NULL},
};
