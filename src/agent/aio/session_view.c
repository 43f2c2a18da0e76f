/* session_view.c - sessions of both kinds as the sandbox API shows them. */
#include "agent/aio/session_view.h"

#include "base/str.h"

void aio_put_session(struct json_out *o, const struct session *s, const struct rt *rt,
                     const char *directory, const char *command)
{
    char at[32];

    json_put_str(o, "session_id", s->id);
    json_put_str(o, "working_dir", directory);
    str_iso8601(at, rt_wall_at(rt, s->created_ns));
    json_put_str(o, "created_at", at);
    str_iso8601(at, rt_wall_at(rt, s->used_ns));
    json_put_str(o, "last_used_at", at);
    json_put_u64(o, "age_seconds", (rt_now(rt) - s->created_ns) / NS_PER_S);
    json_put_str(o, "current_command", command);
}
