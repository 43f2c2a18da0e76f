/* agent.h - what all parts of the agent share: who may call, which user and directory are used, and
 * the tables of the parts. A part uses another part's table only through that part's header. */
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
    bool is_open;                    /* no token is required */
    char life[AGENT_LIFE_LEN + 1];   /* new at each start: distinguishes a box from its successor */
    struct identity user;            /* the user of commands and file operations */
    struct identity root;            /* their user if root is requested; `user` where that is not
                                    * possible */
    char work_dir[AGENT_PATH_MAX];   /* their directory; "": the home */
    struct env_table env;            /* environment of what is started */
    uint64_t started_ns;
    bool is_init; /* process 1 of its box */
    /* Tables of the parts; they live as long as the agent. */
    struct helper_table *helpers;    /* core/helper.h */
    struct process_table *processes; /* process/process.h */
    struct file_lanes *files;        /* file/lane.h */
    struct list bash_sessions;       /* shell/bash_session.h */
    struct list shell_sessions;      /* shell/shell_session.h */
    size_t shell_sessions_max;
    size_t forwards; /* connections to ports of the box, own/api_ports.c */
    size_t attached; /* WebSockets, own/api_attach.c */
};

/* The default directory of `id`: the configured one, else its home, else the root directory; the
 * first one that exists. Lives as long as `a` and `id`. */
const char *agent_directory(const struct agent *a, const struct identity *id);

/* Whether the request has the token of this box. */
bool agent_has_token(const struct agent *a, struct http_exchange *ex);
/* The guard of the server. Health needs no token. Everything else needs it, unless the box was
 * opened: then only routes about the agent itself (HTTP_OPERATOR) need it. If the agent has no
 * token at all and runs with --open, nothing needs one. */
int agent_guard(struct http_exchange *ex, const struct http_route *route, struct err *err);

#endif
