/* snapshot_moves.h - snapshots that leave as one file (base/bundle.h), and come as one. The bytes pass through here by a socket
 * between the daemon and the process that packs or unpacks: what one side does not take is not read from the other. */
#ifndef ENGINE_SNAPSHOT_MOVES_H
#define ENGINE_SNAPSHOT_MOVES_H

#include "engine/pace.h"
#include "engine/snapshots.h"

/* What both share: the engine's. */
struct engine_move {
    struct engine *engine;
    struct list_node link;
    struct op *op; /* of the backend */
    uint64_t principal;
    unsigned backend;
    struct tcp_stream *stream; /* our end; NULL: closed */
    int fd;                    /* the other one, until it is somebody else's alone */
    struct pace pace;
    bool is_slow; /* too slow, or nothing moved */
    struct engine_config_ref *config;
    struct rt_task refusal;
    struct err err; /* of a refusal */
};

/* The caller owns it until on_done(), which comes once, never from inside, also after engine_export_cancel(). */
struct engine_export {
    struct engine_move move;
    struct backend_export request;
    struct buf about;
    bool is_packed; /* all is written, */
    bool is_read;   /* and read */
    void (*on_data)(struct engine_export *x, const char *data, size_t len);
    /* SP_OK: that was all. */
    void (*on_done)(struct engine_export *x, int code, const char *reason);
};

void engine_export_start(struct engine *e, struct engine_export *x, const struct engine_snapshot *s,
                         uint64_t principal);
/* No on_data() between these. */
void engine_export_pause(struct engine_export *x);
void engine_export_resume(struct engine_export *x);
void engine_export_cancel(struct engine_export *x);

/* What its caller asks for. */
struct engine_import_options {
    uint64_t principal;
    const char *profile; /* NULL: the one that the file names */
    const char *name;    /* likewise */
    bool is_any_base;
    const char *head; /* the JSON text at the beginning of the file */
    size_t head_len;
};

struct engine_import {
    struct engine_move move;
    struct backend_import request; /* request.snapshot is the result */
    uint64_t counted;              /* bytes, against the limits, until it is there */
    bool is_unwanted;
    void (*on_drain)(struct engine_import *x);
    /* SP_OK: it is whole and known. */
    void (*on_done)(struct engine_import *x, int code, const char *reason);
};

/* As above; `w` is read during the call only. The file is written from its first byte on, head included. */
void engine_import_start(struct engine *e, struct engine_import *x,
                         const struct engine_import_options *w);
/* Copies. True: wait for on_drain(). */
bool engine_import_write(struct engine_import *x, const char *data, size_t len);
/* That was all. */
void engine_import_end(struct engine_import *x);
/* Nobody wants it any more: nothing of it stays, even when it was whole already. */
void engine_import_cancel(struct engine_import *x);

/* The engine's own. import_head.c: fills what it says in x->request.snapshot, and the backend. */
MUST_CHECK int import_check_head(struct engine *e, struct engine_import *x,
                                 const struct engine_import_options *w, struct err *err);
/* The end. */
void moves_close(struct engine *e);

#endif
