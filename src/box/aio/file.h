/* file.h - what the calls of files share. */
#ifndef BOX_AIO_FILE_H
#define BOX_AIO_FILE_H

#include "box/aio/call.h"

enum { AIO_PATH_MAX = 4096 };

struct aio_file {
    char path[AIO_PATH_MAX]; /* as it was given */
    char to[AIO_PATH_MAX];   /* of a move, a copy */
    uint64_t limit;          /* of a list */
    bool want_follow;        /* of a stat */
    /* of a PUT (put.c) */
    char place[AIO_PATH_MAX + 64]; /* where the bytes go until they are whole; "": nowhere yet */
    char target[AIO_PATH_MAX + 64];
    char mode[8];
    char owner[24];
    bool is_mode_given;
    bool is_new;
    uint64_t sent;
    struct buf tail; /* of the request */
    char type[128];
};

/* One of find's -printf, as AIO_FILE_FORMAT writes it. */
#define AIO_FILE_FORMAT "'%y %s %m %U %G %T@ %p\\0%l\\0'"
struct aio_entry {
    const char *type;
    uint64_t size;
    char mode[8];
    uint64_t uid;
    uint64_t gid;
    uint64_t mtime_ms;
    const char *path; /* into the text */
    const char *name;
    const char *target;
};

/* file_form.c */
/* NULL: it has been answered. Reads `path` of the query. */
struct aio_file *aio_file_of_query(struct aio_call *c);
/* The same of the field of a body; false: it has been answered. */
bool aio_file_of_body(struct aio_call *c, const char *field, char dst[AIO_PATH_MAX]);
/* A switch of the query; false: it has been answered. */
bool aio_file_switch(struct aio_call *c, const char *name, bool *ret);
/* Begins a script, in which "$f" is that format. */
void aio_file_script(struct aio_call *c);
/* Sets `name` to a path, absolute. */
void aio_file_put_path(struct aio_call *c, const char *name, const char *path);
/* Makes the directory "$d". */
void aio_file_put_parents(struct aio_call *c);
/* The next entry of `*at`; false: there is none. */
bool aio_file_next(const char **at, const char *end, struct aio_entry *ret);
void aio_file_put_entry(struct json_out *o, const struct aio_entry *e);
/* on_script(): answers with the one entry that it wrote. */
void aio_file_reply_entry(struct aio_call *c, const struct buf *out);
/* Answers with what a line of errors means. */
void aio_file_fail(struct aio_call *c, const char *line);
/* Answers in the form of file errors. */
void aio_file_refuse(struct aio_call *c, int status, const char *code, const char *message);

#endif
