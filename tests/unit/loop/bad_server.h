/* bad_server.h - an HTTP server that misbehaves on request, in a process of its own: a thread per
 * connection, blocking sockets. The path says what happens:
 *
 *   /ok /echo /status/N /redirect /wait/MS     proper answers; /echo returns the request as it came
 *   /slow         a byte every 5 ms            /never    no answer until the peer leaves
 *   /half         closes before the end        /huge     a body without end
 *   /reset        RST instead of an answer     /length   announces a huge body
 *   /empty        closes without a byte        /headers  header lines without end
 *   /garbage      not HTTP                     /die      closes the connection, counts the request
 *   /folded       begins with a folded line    /coded    another transfer encoding than chunked
 *   /auth/T/...   200 with the bearer token T, else 401
 *   /probe/N/...  503 for the first N requests, then 200
 *
 * and what is in stream_server.h. */
#ifndef TESTS_BAD_SERVER_H
#define TESTS_BAD_SERVER_H

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

struct bad_server_counts {
    atomic_uint connections;
    atomic_uint requests;
    atomic_uint deaths; /* requests for /die that arrived in full */
    atomic_uint probes;
    atomic_uint gate; /* set by a test: /up/count begins to read */
};

struct bad_server {
    pid_t pid;
    unsigned port;
    char unix_path[64];
    struct bad_server_counts *counts; /* shared with the process */
};

/* `port` 0 takes any. Both end the test when they fail. */
void bad_server_start(struct bad_server *s, unsigned port);
void bad_server_stop(struct bad_server *s);
/* A port on which nobody listens. */
unsigned bad_server_free_port(void);
/* Open descriptors of this process. */
size_t bad_server_count_fds(void);

#endif
