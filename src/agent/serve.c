/* serve.c - joins the parts: their tables, and the routes of every interface. */
#include "agent/serve.h"

#include <stdlib.h>

#include "agent/aio/routes.h"
#include "agent/own/routes.h"
#include "agent/shell/bash_session.h"
#include "agent/shell/shell_session.h"
#include "base/mem.h"
#include "base/str.h"

void agent_parts_init(struct agent_parts *parts, struct agent *a, const char *spill_dir)
{
    const char *max = getenv("MAX_SHELL_SESSIONS");
    uint64_t n = SHELL_SESSIONS_DEFAULT;

    if (max != NULL && !str_parse_u64(max, 1, 1000, &n))
        n = SHELL_SESSIONS_DEFAULT;
    a->shell_sessions_max = (size_t) n;
    process_table_init(&parts->processes, &a->loop, spill_dir);
    a->processes = &parts->processes;
    a->helpers = &parts->processes.helpers;
    file_lanes_init(&parts->files);
    a->files = &parts->files;
    list_init(&a->bash_sessions);
    list_init(&a->shell_sessions);
}

void agent_close_sessions(struct agent *a)
{
    bash_sessions_free(a);
    shell_sessions_free(a);
}

/* The first route that matches a request serves it. */
static const struct http_route *const interfaces[] = {
    aio_sandbox_routes,      own_agent_routes,     own_activity_routes,    own_env_routes,
    aio_bash_routes,         own_job_routes,       aio_shell_routes,       aio_shell_session_routes,
    aio_file_routes,         own_directory_routes, own_exec_routes,        own_files_routes,
    own_files_change_routes, own_files_tar_routes, own_files_watch_routes, own_port_routes,
    own_attach_routes,
};

struct http_route *agent_routes_new(void)
{
    struct http_route *routes;
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(interfaces); i++)
        for (const struct http_route *r = interfaces[i]; r->pattern != NULL; r++)
            count++;
    routes = xcalloc(count + 1, sizeof(*routes));
    count = 0;
    for (size_t i = 0; i < ARRAY_LEN(interfaces); i++)
        for (const struct http_route *r = interfaces[i]; r->pattern != NULL; r++)
            routes[count++] = *r;
    return routes;
}
