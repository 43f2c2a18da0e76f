/* walk.h - everything below a directory, one entry at a time. Links are shown and never
 * followed, so that there are no loops; directories that cannot be read are counted and passed over.
 * For jobs: it blocks. */
#ifndef AGENT_FILE_WALK_H
#define AGENT_FILE_WALK_H

#include <sys/stat.h>

#include "agent/file/job.h"

enum { FILE_WALK_DEPTH = 64 };

enum file_walk_next { FILE_WALK_ON, FILE_WALK_PRUNE, FILE_WALK_STOP, FILE_WALK_NEXT_COUNT };

struct file_entry {
    int dir_fd;       /* of the directory it is in */
    const char *name; /* in that directory */
    const char *rel;  /* from the root of the walk */
    const char *full; /* with the root */
    bool is_dir;      /* also for a link to one */
    bool is_link;
};

struct file_walk {
    struct file_job *job; /* its time ends the walk; job->path is the root */
    unsigned max_depth;   /* 1: what is directly in the root */
    bool show_hidden;
    /* FILE_WALK_PRUNE: do not go below this directory. */
    enum file_walk_next (*visit)(void *ctx, const struct file_entry *entry);
    void *ctx;
    /* Filled by the walk. */
    uint64_t unreadable;
    bool is_truncated; /* time or depth was over */
};

/* SP_OK, or SP_IO and job->error when the root cannot be read. */
MUST_CHECK int file_walk_run(struct file_walk *w);
/* Size, time and mode of an entry, of the link itself when it leads nowhere. */
bool file_entry_stat(const struct file_entry *entry, struct stat *ret);

#endif
