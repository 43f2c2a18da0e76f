/* fixture.h - a server with a handler of every kind, and a raw client beside it in the same
 * process: the client's calls turn the loop while they wait, and every wait has an end. */
#ifndef TESTS_UNIT_HTTP_FIXTURE_H
#define TESTS_UNIT_HTTP_FIXTURE_H

#include <stdbool.h>

#include "base/buf.h"
#include "http/http.h"
#include "loop/loop.h"
#include "tests/lib/unit.h"

enum { TURNS_MAX = 64, MARKS_MAX = 8192, PARTS_BYTES = 2 * 1024 * 1024 };
enum { WAIT_MS = 20000, HEAD_MAX = 4096, BODY_MAX = 64 * 1024, STREAM_MAX = 1024 * 1024 };

struct fixture {
    struct loop loop;
    struct http_server *server;
    char dir[64];
    char path[100];
    bool is_closed;
    /* what the handlers saw */
    struct http_exchange *pending; /* the last /wait */
    unsigned waits;
    unsigned gone;
    size_t gone_buffered; /* http_stats.buffered when the last of them went */
    unsigned sent_ok;
    unsigned sent_io;
    unsigned ended;        /* uploads */
    uint64_t uploaded;     /* bytes of the last /upload */
    size_t largest_piece;  /* of an upload */
    uint64_t sunk;         /* bytes of all bodies to /sink */
    bool pause_each_piece; /* /upload pauses after every piece */
    struct http_exchange *paused;
    uint64_t to_send; /* of a /download */
    size_t highest_unsent;
    unsigned drains;
    bool ignores_backpressure;
    unsigned turns; /* answers of /turn that were made, and the `id` of each */
    unsigned turn_ids[TURNS_MAX];
    unsigned parts; /* of /parts */
    unsigned marks; /* answers of /mark, and the `id` of each */
    unsigned mark_ids[MARKS_MAX];
    void (*on_upgrade)(struct http_exchange *ex); /* /upgrade and CONNECT */
    int guard_code;
    bool is_operator; /* connections from now on are an operator's; with share_percent only */
    struct http_peer peer;
};

extern struct fixture fx; /* of the test that runs */

/* cmocka's setup and teardown of `fx`, with short timeouts. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* A running server on a Unix socket; limits may be changed before (NULL: short timeouts). */
void fixture_start(struct fixture *f, const struct http_limits *limits);
void fixture_stop(struct fixture *f);
/* One more like it, that listens nowhere. */
struct http_server *fixture_new_server(struct fixture *f, const struct http_limits *limits);
void fixture_limits(struct http_limits *ret);
/* One pass of the loop; waits a moment for something to do. */
void fixture_turn(struct fixture *f);
/* Turns for that long. */
void fixture_run_ms(struct fixture *f, unsigned ms);
uint64_t fixture_now_ms(void);

/* Turns until the condition holds; fails the test when it does not in time. */
#define fixture_until(f, condition)                               \
    do {                                                          \
        uint64_t until_end_ = fixture_now_ms() + WAIT_MS;         \
        while (!(condition)) {                                    \
            if (fixture_now_ms() > until_end_)                    \
                fail_msg("timed out waiting for %s", #condition); \
            fixture_turn(f);                                      \
        }                                                         \
    } while (0)

struct client {
    struct fixture *f;
    int fd;
    bool is_eof;
    bool is_reset;
    struct buf in;
};

void client_open(struct client *c, struct fixture *f);
void client_open_fd(struct client *c, struct fixture *f, int fd);
void client_close(struct client *c);
/* All of it, turning the loop while the socket is full. False when the server has shut the door. */
bool client_try_send(struct client *c, const char *data, size_t len);
void client_send(struct client *c, const char *text);
/* Reads what is there; never waits. */
void client_poll(struct client *c);
/* The next whole answer with Content-Length: its status, and its text (head and body) in `ret`
 * which may be NULL. Fails the test when none comes. */
int client_answer(struct client *c, struct buf *ret);
/* The same for an answer without body (HEAD, 100). */
int client_head(struct client *c, struct buf *ret);
/* Waits for EOF (or reset); everything that came before is in c->in. */
void client_wait_eof(struct client *c);
/* Sends, takes one answer, and compares its status. */
void client_expect(struct client *c, const char *request, int status);

#endif
