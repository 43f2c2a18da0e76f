/* script_server.h - a server on a Unix socket that answers each request with the next step of a
 * script, whatever was asked: odd answers, early closes, silence. Runs on a thread of its own. */
#ifndef TESTS_SCRIPT_SERVER_H
#define TESTS_SCRIPT_SERVER_H

#include <stdbool.h>
#include <stddef.h>

struct step {
    const char *answer; /* NULL: none */
    const char *later;  /* sent 20 ms after, if not NULL */
    bool want_close;    /* then the connection ends */
    bool want_silence;  /* then nothing until the client leaves */
    size_t filler;      /* this many bytes 'x' after the answer */
};

struct script_server;

/* The steps must outlive the server; after the last, connections are closed at once. */
struct script_server *script_server_start(const struct step *steps, size_t count);
const char *script_server_path(const struct script_server *s);
/* Joins the thread, removes the socket. The counters are for after the stop. */
void script_server_stop(struct script_server *s);
void script_server_free(struct script_server *s);
unsigned script_server_connections(const struct script_server *s);
unsigned script_server_requests(const struct script_server *s);
/* The n-th request, head and body. */
const char *script_server_request(const struct script_server *s, unsigned n);

#endif
