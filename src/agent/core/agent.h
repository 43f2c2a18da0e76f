/* agent.h - what all parts of the agent share: who is served, as whom, where, and the tables of the parts.
 * The parts see each other's tables only through their own headers. */
#ifndef AGENT_CORE_AGENT_H
#define AGENT_CORE_AGENT_H

#include "agent/core/env_table.h"
#include "agent/core/identity.h"
#include "base/list.h"
#include "http/http.h"
#include "loop/loop.h"

enum { AGENT_TOKEN_MAX = 128, AGENT_PATH_MAX = 1024, AGENT_LIFE_LEN = 16 };

struct file_lanes;
struct helper_table;
struct process_table;

struct agent {
    struct loop loop;
    struct http_server *server;
    char token[AGENT_TOKEN_MAX + 1]; /* "": everything but health is refused */
    bool is_open;                    /* the token is not asked for */
    char life[AGENT_LIFE_LEN + 1];   /* another one after each start: distinguishes a box from its
                                        successor */
    struct identity user;            /* who commands and file operations are */
    struct identity root;          /* who they are on request; `user` where that is not possible */
    char work_dir[AGENT_PATH_MAX]; /* where they are; "": at home */
    struct env_table env;          /* of what is started */
    uint64_t started_ns;
    bool is_init; /* process 1 of its box */
    /* Of the parts; they live as long as the agent. */
    struct helper_table *helpers;    /* core/helper.h */
    struct process_table *processes; /* process/process.h */
    struct file_lanes *files;        /* file/lane.h */
    struct list bash_sessions;       /* shell/bash_session.h */
    struct list shell_sessions;      /* shell/shell_session.h */
    size_t shell_sessions_max;
};

/* The default directory of what `id` does: the one that was configured, or its home, or the top,
 * the first of them that is there. Lives as long as `a` and `id`. */
const char *agent_directory(const struct agent *a, const struct identity *id);

/* The request has the token of this box. */
bool agent_has_token(const struct agent *a, struct http_exchange *ex);
/* The guard of the server: health is open, everything else wants the token, unless the box was
 * opened; then only what is about the agent itself does (HTTP_OPERATOR). Without a token that can be
 * sent (--open) nothing does. */
int agent_guard(struct http_exchange *ex, const struct http_route *route, struct err *err);

#endif
