/* box_internal.h - what the files of box.h share. */
#ifndef CLIENT_BOX_INTERNAL_H
#define CLIENT_BOX_INTERNAL_H

#include <sys/socket.h>

#include "client/internal.h"
#include "sandpool/box.h"

enum { BOX_PIECE = 64 * 1024 };

struct sp_box {
    struct sockaddr_storage address;
    socklen_t address_len;
    char url[256];       /* or the path of the daemon's socket: for messages */
    char authority[193]; /* of the url: host and port */
    char prefix[256];    /* of every target, without a last '/' */
    char token[65];
    int fd; /* -1: not connected */
    bool is_connecting;
    bool is_busy;
    uint64_t used_ms;  /* when the last call ended */
    uint64_t grace_ms; /* for the end of a command, beyond its time */
    struct buf request;
    size_t sent;
    bool is_chunked;   /* the body that is being written */
    bool is_body_open; /* more of it may come */
    bool wants_raw;
    bool has_answer; /* `answer` is initialised */
    struct answer answer;
    char *piece;
};

/* --- box_transfer.c --- */

/* Waits for the connection and continues; SP_TIMEOUT when nothing moves for so long. */
MUST_CHECK int box_wait_step(struct sp_box *b, uint64_t still_ms, struct sp_failure *f);
/* Until the call that was begun is over. */
MUST_CHECK int box_finish(struct sp_box *b, struct sp_failure *f);

#endif
