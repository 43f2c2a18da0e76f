/* routes.h - the API of the AIO sandbox, as its clients know it. Each list ends with .pattern NULL. */
#ifndef AGENT_AIO_ROUTES_H
#define AGENT_AIO_ROUTES_H

#include "http/http.h"

extern const struct http_route aio_bash_routes[];
extern const struct http_route aio_file_routes[];
extern const struct http_route aio_sandbox_routes[];
extern const struct http_route aio_shell_routes[];
extern const struct http_route aio_shell_session_routes[];

#endif
