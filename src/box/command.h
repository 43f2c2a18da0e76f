/* command.h - runs a command in a box, by its agent, until its end. */
#ifndef BOX_COMMAND_H
#define BOX_COMMAND_H

#include "base/op.h"
#include "box/address.h"
#include "loop/httpc.h"

enum { BOX_COMMAND_TAIL_MAX = 1024 };

struct box_command {
    /* SP_OK: it has exited with 0. SP_BACKEND_FAILED, with how it ended and the end of its output; SP_CANCELLED. */
    struct op op;
    /* set by the caller, on a zeroed object; borrowed until on_done() */
    const char *url;
    const char *token;
    const char *command; /* for the shell */
    bool is_root;        /* else the box's user */
    uint64_t timeout_s;
    /* result: the last of what it wrote, to standard error if there was any; one line */
    char tail[BOX_COMMAND_TAIL_MAX + 1];
    /* its own */
    struct httpc_request request;
    struct buf body;
    char target[BOX_URL_MAX + 32];
    char authorization[BOX_TOKEN_MAX + 32];
    const char *headers[3];
};

void box_command_start(struct httpc *http, struct rt *rt, struct box_command *c, struct list *owner,
                       void (*on_done)(struct op *));

#endif
