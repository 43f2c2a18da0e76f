/* routes.h - the agent's own interface, in plain JSON: itself, exec, jobs, environment, activity, directories.
 * Each list ends with .pattern NULL. */
#ifndef AGENT_OWN_ROUTES_H
#define AGENT_OWN_ROUTES_H

#include "http/http.h"

extern const struct http_route own_activity_routes[];
extern const struct http_route own_agent_routes[];
extern const struct http_route own_directory_routes[];
extern const struct http_route own_env_routes[];
extern const struct http_route own_exec_routes[];
extern const struct http_route own_job_routes[];

#endif
