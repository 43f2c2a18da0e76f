/* errors.h - every way a call can fail, in one table: the daemon answers with it, the client and
 * the CLI read it back, docs and tests are checked against it.
 *
 * X(NAME, name on the wire, HTTP status, may be retried as it is, sentence for people) */
#ifndef SANDPOOL_ERRORS_H
#define SANDPOOL_ERRORS_H

#include <stdbool.h>

#define SP_ERROR_TABLE(X)                                                                         \
    X(BAD_REQUEST, "bad_request", 400, false, "the request is malformed")                         \
    X(UNAUTHORIZED, "unauthorized", 401, false, "a valid bearer token is required")               \
    X(BUDGET_EXCEEDED, "budget_exceeded", 402, false, "the user has used up its budget")          \
    X(FORBIDDEN, "forbidden", 403, false, "this caller may not do that")                          \
    X(NOT_FOUND, "not_found", 404, false, "no such sandbox")                                      \
    X(NO_ROUTE, "no_route", 404, false, "no such path")                                           \
    X(METHOD_NOT_ALLOWED, "method_not_allowed", 405, false,                                       \
      "this path does not support the method")                                                    \
    X(REQUEST_TIMEOUT, "request_timeout", 408, true, "the request did not arrive in time")        \
    X(SPEC_CONFLICT, "spec_conflict", 409, false, "the thread holds a box of another profile")    \
    X(OWNER_CONFLICT, "owner_conflict", 409, false, "this id belongs to another user or thread")  \
    X(STALE_GENERATION, "stale_generation", 409, false, "the id has been bound to a newer box")   \
    X(NOT_LEASED, "not_leased", 409, false, "the sandbox is not leased")                          \
    X(JOB_ENDED, "job_ended", 409, false, "the job has ended, or takes no input")                 \
    X(SANDBOX_LOST, "sandbox_lost", 410, false, "the sandbox died or was removed")                \
    X(BODY_TOO_LARGE, "body_too_large", 413, false, "the request body is too large")              \
    X(URI_TOO_LONG, "uri_too_long", 414, false, "the request target is too long")                 \
    X(EXPECTATION_FAILED, "expectation_failed", 417, false,                                       \
      "only 'Expect: 100-continue' is supported")                                                 \
    X(INVALID_FIELD, "invalid_field", 422, false, "a field has a wrong value")                    \
    X(PROGRAM_NOT_FOUND, "program_not_found", 422, false, "there is no such program")             \
    X(PROGRAM_NOT_EXECUTABLE, "program_not_executable", 422, false,                               \
      "the program cannot be executed")                                                           \
    X(UPGRADE_REQUIRED, "upgrade_required", 426, false, "this path is for WebSockets")            \
    X(POOL_EXHAUSTED, "pool_exhausted", 429, true, "all boxes are in use")                        \
    X(QUEUE_FULL, "queue_full", 429, true, "too many callers are waiting")                        \
    X(TOO_MANY_CALLS, "too_many_calls", 429, true, "too many calls to sandboxes run at once")     \
    X(TOO_MANY_SNAPSHOTS, "too_many_snapshots", 429, false, "as many snapshots as may be kept")   \
    X(QUOTA_BOXES, "quota_boxes", 429, true, "this caller or user has as many boxes as it may")   \
    X(QUOTA_WAITING, "quota_waiting", 429, true,                                                  \
      "as many acquires of this caller or user wait as may")                                      \
    X(QUOTA_CREATES, "quota_creates", 429, true,                                                  \
      "this caller or user has got as many new sandboxes in this minute as it may")               \
    X(TOO_MANY_TOKENS, "too_many_tokens", 429, false, "there are as many tokens as may be")       \
    X(HEADERS_TOO_LARGE, "headers_too_large", 431, false, "the request headers are too large")    \
    X(CANCELLED, "cancelled", 499, true, "the operation was cancelled")                           \
    X(INTERNAL, "internal", 500, false, "an internal error of the daemon")                        \
    X(UNSUPPORTED, "unsupported", 501, false, "the backend cannot do that")                       \
    X(BACKEND_FAILED, "backend_failed", 502, true, "the backend reported an error")               \
    X(TRANSPORT_LOST, "transport_lost", 502, false, "the connection to the sandbox broke")        \
    X(PORT_CLOSED, "port_closed", 502, true, "nothing listens on this port of the sandbox")       \
    X(ACQUIRE_TIMEOUT, "acquire_timeout", 503, true, "no box became ready in time")               \
    X(BACKEND_UNAVAILABLE, "backend_unavailable", 503, true, "the backend fails to make boxes")   \
    X(STORE_UNAVAILABLE, "store_unavailable", 503, true, "the store cannot be written")           \
    X(TOO_MANY_CONNECTIONS, "too_many_connections", 503, true, "the connection limit is reached") \
    X(DRAINING, "draining", 503, true, "no new leases")                                           \
    X(PAUSED, "paused", 503, true, "no new leases")                                               \
    X(STARTING, "starting", 503, true, "the daemon is still starting")                            \
    X(TIMEOUT, "timeout", 504, true, "the operation did not finish in time")                      \
    X(HTTP_VERSION, "http_version", 505, false, "only HTTP/1.0 and HTTP/1.1 are supported")       \
    /* below: never sent by the daemon, only used by its clients and inside it */                 \
    X(CONNECT_FAILED, "connect_failed", 0, true, "the daemon cannot be reached")                  \
    X(PROTOCOL, "protocol", 0, false, "the peer's response is malformed")                         \
    X(TOO_BIG, "too_big", 0, false, "a limit was exceeded")                                       \
    X(NO_MEMORY, "no_memory", 503, true, "not enough memory for this request")                    \
    X(CONFIG, "config", 0, false, "the configuration is wrong")                                   \
    X(LOCKED, "locked", 0, true, "another daemon uses this state directory")                      \
    X(IO, "io", 0, true, "an input or output operation failed")

/* Codes are negative so that they share a return value with counts and lengths. */
enum sp_error_index {
    SP_ERROR_INDEX_NONE,
#define X(name, wire, status, retry, text) SP_ERROR_INDEX_##name,
    SP_ERROR_TABLE(X)
#undef X
        SP_ERROR_INDEX_COUNT
};

enum sp_error {
    SP_OK = 0,
#define X(name, wire, status, retry, text) SP_##name = -(int) SP_ERROR_INDEX_##name,
    SP_ERROR_TABLE(X)
#undef X
};

struct sp_error_info {
    int code;
    const char *name;
    int http_status;
    bool is_retryable;
    const char *text;
};

/* Never NULL: an unknown code is described as SP_INTERNAL. */
const struct sp_error_info *sp_error_info(int code);
/* The code for a name on the wire; SP_INTERNAL when it is unknown. */
int sp_error_from_name(const char *name);

#endif
