/* serve.h - what the agent serves inside its box. */
#ifndef AGENT_SERVE_H
#define AGENT_SERVE_H

#include "agent/channel.h"
#include "agent/env_table.h"
#include "agent/file_lane.h"
#include "agent/identity.h"
#include "agent/leave.h"
#include "agent/process.h"
#include "http/http.h"

enum { AGENT_TOKEN_MAX = 128, AGENT_PATH_MAX = 1024, AGENT_LIFE_LEN = 16 };

struct agent {
    struct loop loop;
    struct http_server *server;
    struct channel *channel; /* NULL: connections come from a listening socket */
    struct http_route *routes;
    char token[AGENT_TOKEN_MAX + 1]; /* "": everything but health is refused */
    bool is_open;                    /* the token is not asked for */
    char
        life[AGENT_LIFE_LEN + 1]; /* another one after each start: tells a box from its successor */
    struct identity user;         /* who commands and file operations are */
    struct identity root;         /* who they are on request; `user` where that is not possible */
    char work_dir[AGENT_PATH_MAX]; /* where they are; "": at home */
    struct env_table env;          /* of what is started */
    uint64_t started_ns;
    const char *spill_dir;
    struct process_table processes;
    struct list bash_sessions;  /* bash_session.h */
    struct list shell_sessions; /* shell_session.h */
    size_t shell_sessions_max;
    struct file_lanes files; /* file_job.c */
    struct leave leave;
    uint64_t stop_grace_ns; /* between SIGTERM and the end of all */
    bool is_init;           /* process 1 of its box */
    bool is_closing;
};

/* The routes of every part in one table, for the server's config; free() it after the server. */
MUST_CHECK struct http_route *agent_routes_new(void);

/* The parts' routes; each ends with .pattern NULL. */
extern const struct http_route agent_activity_routes[];
extern const struct http_route agent_bash_routes[];
extern const struct http_route agent_env_routes[];
extern const struct http_route agent_process_routes[];
extern const struct http_route agent_shell_routes[];
extern const struct http_route agent_shell_session_routes[];

/* The default directory of what `id` does: the one that was configured, or its home, or the top,
 * the first of them that is there. Lives as long as `a` and `id`. */
const char *agent_directory(const struct agent *a, const struct identity *id);
/* For the agent's own calls: the body as an object, an empty one for none; NULL after the error was
 * answered. */
struct json_doc *agent_read_body(struct http_exchange *ex);

/* What the parts keep between requests. */
void agent_init_sessions(struct agent *a);
void agent_fini_sessions(struct agent *a);

/* The guard of the server: health is open, everything else wants the token, unless the box was
 * opened; then only what is about the agent itself does (HTTP_OPERATOR). Without a token that can be
 * sent (--open) nothing does. */
int agent_guard(struct http_exchange *ex, const struct http_route *route, struct err *err);

#endif
