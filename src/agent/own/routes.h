/* routes.h - the agent's own interface, in plain JSON: itself, exec, jobs, files, ports, environment, activity,
 * directories. Each list ends with .pattern NULL. */
#ifndef AGENT_OWN_ROUTES_H
#define AGENT_OWN_ROUTES_H

#include "http/http.h"

extern const struct http_route own_activity_routes[];
extern const struct http_route own_agent_routes[];
extern const struct http_route own_attach_routes[];
extern const struct http_route own_directory_routes[];
extern const struct http_route own_env_routes[];
extern const struct http_route own_exec_routes[];
extern const struct http_route own_files_change_routes[];
extern const struct http_route own_files_routes[];
extern const struct http_route own_files_tar_routes[];
extern const struct http_route own_files_watch_routes[];
extern const struct http_route own_job_routes[];
extern const struct http_route own_port_routes[];

#endif
