/* find.h - names below a directory, as many as are wanted, in order. It blocks. */
#ifndef AGENT_FILE_FIND_H
#define AGENT_FILE_FIND_H

#include "agent/file/glob.h"
#include "agent/file/job.h"

enum { FILE_TYPES_MAX = 32 };

enum file_order { FILE_ORDER_NAME, FILE_ORDER_SIZE, FILE_ORDER_TIME, FILE_ORDER_COUNT };

struct file_found {
    char *path;
    size_t name; /* where in path the name starts */
    bool is_dir;
    bool has_stat;
    uint64_t size;
    uint64_t time_ms;
    unsigned mode;
};

/* Zeroed but for what the caller wants. */
struct file_find {
    struct file_job *job;              /* its path is the root */
    const struct glob *glob;           /* NULL: everything */
    const char *types[FILE_TYPES_MAX]; /* extensions of files, with or without the dot; none: all */
    size_t type_count;
    bool want_dirs;
    bool want_stat;
    uint64_t max;
    /* The result. */
    struct file_found *found;
    size_t count;
    size_t cap;
    size_t bytes;
    bool is_truncated;
};

/* SP_OK, or SP_IO and job->error. Needs file_find_fini() either way. */
MUST_CHECK int file_find_run(struct file_find *f, uint64_t max_depth, bool show_hidden);
/* Ties are in the order of their paths. */
void file_find_sort(struct file_find *f, enum file_order order, bool is_descending);
void file_find_fini(struct file_find *f);
/* With its dot, "" for none. */
const char *file_extension(const char *name);

#endif
