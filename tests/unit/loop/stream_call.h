/* stream_call.h - fixture of the tests of streams: a request whose body and answer follow the pattern of
 * stream_server.h, and what it takes to see that memory stays flat and nothing spins. */
#ifndef TESTS_STREAM_CALL_H
#define TESTS_STREAM_CALL_H

#include "tests/unit/loop/http_call.h"
#include "tests/unit/loop/stream_server.h"

enum { MIB = 1 << 20, HELD_MAX = 256 * 1024 };

struct stream {
    struct call call;
    uint64_t size; /* of the body that is sent; UINT64_MAX: without end */
    uint64_t sent;
    uint64_t got;
    unsigned calls;
    size_t left_max; /* the most that on_data() found */
    size_t rss_max;
    bool is_pausing; /* after every piece, for a moment */
    bool is_leaving; /* on_data() takes nothing */
    struct rt_task resume;
};

/* How much flows: 256, or what SANDPOOL_TEST_STREAM_MIB says. */
uint64_t stream_mib(void);
size_t stream_rss(void);
uint64_t stream_cpu_us(void);
/* Runs the loop for a while in which nothing is to happen. */
void stream_rest(struct fixture *f, uint64_t ms);
struct stream *stream_of(struct httpc_request *r);
/* on_body_drain(): writes until enough waits. */
void stream_push(struct httpc_request *r);
/* on_data(): checks the pattern. */
void stream_on_data(struct httpc_request *r);
/* A POST whose body is written by stream_push(). */
void stream_prepare_up(struct fixture *f, struct stream *s, const char *path, uint64_t size);
void stream_assert_answer(struct stream *s, int status, const char *text);
void stream_assert_flat(const struct stream *s, size_t rss_before);
/* fire() of a call's cancel timer. */
void stream_on_cancel_time(struct rt_timer *timer);

#endif
