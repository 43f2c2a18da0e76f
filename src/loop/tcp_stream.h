/* tcp_stream.h - one TCP connection that we open, or a Unix socket, as a stream of bytes in both directions.
 *
 * No callback comes from inside a function of this header, and none after tcp_stream_close(). on_open() comes once; with
 * SP_OK the others may follow. After on_open() with an error, and after on_broken(), only tcp_stream_close() may be called. */
#ifndef LOOP_TCP_STREAM_H
#define LOOP_TCP_STREAM_H

#include "base/err.h"
#include "loop/loop.h"

struct tcp_stream;

/* Above this many bytes that the kernel has not taken the writer should wait for on_drain(). */
#define TCP_STREAM_HIGH (128 * 1024)

struct tcp_stream_events {
    /* SP_OK; SP_CONNECT_FAILED, or SP_TIMEOUT when the deadline came first. */
    void (*on_open)(void *ctx, int result);
    void (*on_data)(void *ctx, const char *data, size_t len);
    /* The peer has ended its side. */
    void (*on_end)(void *ctx);
    /* All that was written has been taken. */
    void (*on_drain)(void *ctx);
    void (*on_broken)(void *ctx);
};

/* `address` is numeric, without brackets. `deadline_ns` is for the connect. Never NULL: trouble comes by on_open(). */
struct tcp_stream *tcp_stream_open(struct loop *l, const char *address, uint16_t port,
                                   uint64_t deadline_ns, const struct tcp_stream_events *events,
                                   void *ctx);
/* The same for a Unix socket that is connected already: on_open() does not come. Takes `fd` over, also when it fails. */
MUST_CHECK int tcp_stream_take(struct loop *l, int fd, const struct tcp_stream_events *events,
                               void *ctx, struct tcp_stream **ret, struct err *err);
/* Copies; gives the bytes not yet taken. More than TCP_STREAM_MAX of them break the stream. */
#define TCP_STREAM_MAX (4 * 1024 * 1024)
size_t tcp_stream_write(struct tcp_stream *s, const char *data, size_t len);
size_t tcp_stream_unsent(const struct tcp_stream *s);
/* No on_data() and no on_end() between these; the peer is slowed by TCP. */
void tcp_stream_pause(struct tcp_stream *s);
void tcp_stream_resume(struct tcp_stream *s);
/* Ends our side behind what was written. */
void tcp_stream_shut(struct tcp_stream *s);
/* At once; frees it. */
void tcp_stream_close(struct tcp_stream *s);

#endif
