/* editor.h - edits of one UTF-8 text file: it is read, changed in memory and written back as a
 * whole. Functions that return a code return SP_OK, or SP_IO and job->error. It blocks. */
#ifndef AGENT_FILE_EDITOR_H
#define AGENT_FILE_EDITOR_H

#include "agent/file/job.h"

struct file_edit {
    struct file_job *job; /* its path is the file */
    bool has_old;         /* the file was there: `before` is what it was */
    bool has_text;        /* `after` is what it is now */
    struct buf before;
    struct buf after;
};

void file_edit_init(struct file_edit *e, struct file_job *job);
void file_edit_fini(struct file_edit *e);

MUST_CHECK int file_edit_load(struct file_edit *e);
/* Only if nothing is there, not even a link. */
MUST_CHECK int file_edit_create(struct file_edit *e, const char *text);

/* After file_edit_load(): */
/* How often `what` occurs in it, and where first and last; `what` is not empty. */
uint64_t file_edit_find(const struct file_edit *e, const char *what, size_t *first, size_t *last);
/* `old` is at byte `at`. */
MUST_CHECK int file_edit_replace_at(struct file_edit *e, size_t at, const char *old,
                                    const char *new);
MUST_CHECK int file_edit_replace_all(struct file_edit *e, const char *old, const char *new);
/* The byte after line `line`, counted from 1; 0 is the start. False when there are fewer lines. */
MUST_CHECK bool file_edit_line_end(const struct file_edit *e, uint64_t line, size_t *ret_at);
/* Inserts it as separate lines, at the byte from file_edit_line_end(). */
MUST_CHECK int file_edit_insert(struct file_edit *e, size_t at, const char *lines);

/* The lines first to last of the text, counted from 1, each with its number. */
void file_print_lines(struct buf *out, const struct buf *text, uint64_t first, uint64_t last);
uint64_t file_count_lines(const char *text, size_t len);

#endif
