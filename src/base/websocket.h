/* websocket.h - RFC 6455 for either side: the handshake, frames to messages, messages to frames. Pure: no sockets, no
 * clock, so that it can be fuzzed. */
#ifndef BASE_WEBSOCKET_H
#define BASE_WEBSOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum websocket_opcode {
    WEBSOCKET_MORE = 0, /* the next part of a message */
    WEBSOCKET_TEXT = 1,
    WEBSOCKET_BINARY = 2,
    WEBSOCKET_CLOSE = 8,
    WEBSOCKET_PING = 9,
    WEBSOCKET_PONG = 10,
};

enum websocket_status {
    WEBSOCKET_NORMAL = 1000,
    WEBSOCKET_GOING_AWAY = 1001,
    WEBSOCKET_PROTOCOL = 1002,
    WEBSOCKET_NOT_TEXT = 1007,
    WEBSOCKET_REFUSED = 1008,
    WEBSOCKET_TOO_BIG = 1009,
    WEBSOCKET_FAILED = 1011,
    WEBSOCKET_LATER = 1013,
};

enum { WEBSOCKET_KEY_LEN = 24, WEBSOCKET_ACCEPT_LEN = 28, WEBSOCKET_CONTROL_MAX = 125 };

/* A new Sec-WebSocket-Key. */
void websocket_make_key(char ret[WEBSOCKET_KEY_LEN + 1]);
/* The value of Sec-WebSocket-Accept; false when the key is none. */
bool websocket_accept(const char *key, char ret[WEBSOCKET_ACCEPT_LEN + 1]);

/* Reads what the other side sends. Set on_message after websocket_reader_init(). */
struct websocket_reader {
    bool is_client; /* what a server sends: it masks nothing. A client masks everything */
    /* A whole message (TEXT, BINARY) or control frame (CLOSE, PING, PONG). False: stop, and drop what is left. */
    bool (*on_message)(struct websocket_reader *r, enum websocket_opcode opcode, const char *data,
                       size_t len);
    struct buf message; /* its max is that of a message */
    /* the reader's own */
    unsigned char head[14];
    size_t head_len;
    uint64_t left; /* of the frame's data */
    size_t mask_at;
    bool is_in_frame;
    enum websocket_opcode opcode; /* of the frame */
    enum websocket_opcode kind;   /* of the message; MORE: none is begun */
    bool is_last;
    char control[WEBSOCKET_CONTROL_MAX + 1];
    size_t control_len;
    int failure; /* enum websocket_status */
};

void websocket_reader_init(struct websocket_reader *r, size_t max);
void websocket_reader_fini(struct websocket_reader *r);
/* 0, or the status to close with: nothing more may be fed. */
int websocket_feed(struct websocket_reader *r, const char *data, size_t len);

/* Of a server: appends the head of a frame, which `len` bytes follow. */
void websocket_put_head(struct buf *out, enum websocket_opcode opcode, size_t len);
/* Of a client: appends a whole frame, masked. */
void websocket_put_masked(struct buf *out, enum websocket_opcode opcode, const void *data,
                          size_t len);
/* Of a server: appends a whole close frame; the text is cut to what fits. */
void websocket_put_close(struct buf *out, int status, const char *text);

#endif
