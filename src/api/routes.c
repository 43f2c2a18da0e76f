/* routes.c - the table of the native API. */
#include "api/internal.h"

const struct http_route api_routes[] = {
    {HTTP_METHOD_POST, "/v1/acquire", api_acquire, 0, 0, "get a sandbox for a thread"},
    {HTTP_METHOD_GET, "/v1/sandboxes", api_list, 0, 0, "list sandboxes"},
    {HTTP_METHOD_GET, "/v1/sandboxes/{id}", api_get, 0, 0, "one sandbox"},
    {HTTP_METHOD_DELETE, "/v1/sandboxes/{id}", api_destroy, 0, 0, "destroy a sandbox"},
    {HTTP_METHOD_POST, "/v1/sandboxes/{id}/release", api_release, 0, 0, "give a sandbox back"},
    {HTTP_METHOD_POST, "/v1/sandboxes/{id}/renew", api_renew, 0, 0, "push a lease's deadline"},
    {HTTP_METHOD_GET, "/v1/pool", api_pool, 0, 0, "state of the pool"},
    {HTTP_METHOD_POST, "/v1/pool/pause", api_pause, HTTP_OPERATOR, 0, "hold new leases"},
    {HTTP_METHOD_POST, "/v1/pool/resume", api_resume, HTTP_OPERATOR, 0, "serve again"},
    {HTTP_METHOD_POST, "/v1/pool/drain", api_drain, HTTP_OPERATOR, 0, "refuse new leases"},
    {HTTP_METHOD_POST, "/v1/pool/reconcile", api_reconcile, HTTP_OPERATOR, 0,
     "compare with the backends now"},
    {HTTP_METHOD_POST, "/v1/pool/reload", api_reload, HTTP_OPERATOR, 0,
     "read the configuration again"},
    {HTTP_METHOD_GET, "/v1/doctor", api_doctor, HTTP_OPERATOR, 0,
     "examine what boxes are made with"},
    {HTTP_METHOD_GET, "/v1/events", api_events, HTTP_OPERATOR, 0, "live events, resumable"},
    {HTTP_METHOD_GET, "/v1/version", api_version, 0, 0, "version and instance"},
    {HTTP_METHOD_GET, "/healthz", api_healthz, HTTP_OPEN, 0, "the process is alive"},
    {HTTP_METHOD_GET, "/readyz", api_readyz, HTTP_OPEN, 0, "acquires can succeed"},
    {.pattern = NULL},
};
