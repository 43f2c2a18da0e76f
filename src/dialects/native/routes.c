/* routes.c - the table of the native API. */
#include "dialects/native/internal.h"

#define SANDBOX "/v1/sandboxes/{id}/"
/* To the agent of the box, which knows the rest. */
/* clang-format off */
#define CALL(method, path, summary) \
    {HTTP_METHOD_##method, SANDBOX path, api_call, HTTP_STREAM, 0, summary}
/* clang-format on */

const struct http_route api_routes[] = {
    {HTTP_METHOD_POST, "/v1/acquire", api_acquire, 0, 0, "get a sandbox for a thread"},
    {HTTP_METHOD_GET, "/v1/sandboxes", api_list, 0, 0, "list sandboxes"},
    {HTTP_METHOD_GET, "/v1/sandboxes/{id}", api_get, 0, 0, "one sandbox"},
    {HTTP_METHOD_DELETE, "/v1/sandboxes/{id}", api_destroy, 0, 0, "destroy a sandbox"},
    {HTTP_METHOD_POST, "/v1/sandboxes/{id}/release", api_release, 0, 0, "release a sandbox"},
    {HTTP_METHOD_POST, "/v1/sandboxes/{id}/renew", api_renew, 0, 0, "extend a lease"},
    CALL(POST, "exec", "run a command in a sandbox"),
    CALL(POST, "jobs", "start a job"),
    CALL(GET, "jobs", "list the jobs of a sandbox"),
    CALL(GET, "jobs/{job}", "one job"),
    CALL(DELETE, "jobs/{job}", "end a job"),
    CALL(POST, "jobs/{job}/wait", "wait for the end of a job"),
    CALL(GET, "jobs/{job}/output", "output of a job, old and live"),
    CALL(POST, "jobs/{job}/stdin", "input for a job"),
    CALL(POST, "jobs/{job}/signal", "send a signal to a job"),
    CALL(POST, "jobs/{job}/resize", "resize the terminal of a job"),
    CALL(GET, "jobs/{job}/attach", "input and output of a job on a WebSocket"),
    CALL(GET, "files", "read a file"),
    CALL(PUT, "files", "write a file"),
    CALL(DELETE, "files", "remove a file or a tree"),
    CALL(GET, "files/stat", "look at a file"),
    CALL(GET, "files/list", "list a directory"),
    CALL(POST, "files/mkdir", "make a directory"),
    CALL(POST, "files/move", "move a file or a tree"),
    CALL(POST, "files/copy", "copy a file or a tree"),
    CALL(GET, "files/tar", "read a tree as tar"),
    CALL(PUT, "files/tar", "unpack a tar into a directory"),
    CALL(GET, "files/watch", "follow changes of files"),
    CALL(GET, "ports", "list listening ports"),
    {HTTP_METHOD_GET, SANDBOX "ports/{port}", api_call_port, HTTP_STREAM | HTTP_ANY, 0,
     "the root of a server in a sandbox, or raw TCP to it"},
    {HTTP_METHOD_GET, SANDBOX "ports/{port}/*", api_call_port, HTTP_STREAM | HTTP_ANY, 0,
     "a server in a sandbox"},
    {HTTP_METHOD_GET, "/v1/waiting", api_waiting, 0, 0, "what an acquire waits for"},
    {HTTP_METHOD_GET, "/v1/pool", api_pool, 0, 0, "state of the pool"},
    {HTTP_METHOD_POST, "/v1/pool/pause", api_pause, HTTP_OPERATOR, 0, "stop new leases"},
    {HTTP_METHOD_POST, "/v1/pool/resume", api_resume, HTTP_OPERATOR, 0, "serve again"},
    {HTTP_METHOD_POST, "/v1/pool/drain", api_drain, HTTP_OPERATOR, 0, "refuse new leases"},
    {HTTP_METHOD_POST, "/v1/pool/reconcile", api_reconcile, HTTP_OPERATOR, 0,
     "compare the pool with its backends now"},
    {HTTP_METHOD_POST, "/v1/pool/reload", api_reload, HTTP_OPERATOR, 0,
     "read the configuration again"},
    {HTTP_METHOD_GET, "/v1/doctor", api_doctor, HTTP_OPERATOR, 0, "check what boxes are made with"},
    {HTTP_METHOD_GET, "/v1/events", api_events, HTTP_OPERATOR, 0,
     "events, old and live, resumable"},
    {HTTP_METHOD_GET, "/v1/backup", api_backup, HTTP_OPERATOR, 0, "a copy of the database"},
    {HTTP_METHOD_GET, "/v1/version", api_version, 0, 0, "version and instance"},
    {HTTP_METHOD_GET, "/s/*", api_pass, HTTP_STREAM | HTTP_ANY | HTTP_OPEN, 0,
     "proxy to a sandbox"},
    {HTTP_METHOD_GET, "/healthz", api_healthz, HTTP_OPEN, 0, "the process is alive"},
    {HTTP_METHOD_GET, "/readyz", api_readyz, HTTP_OPEN, 0, "acquires can succeed"},
    {.pattern = NULL},
};
