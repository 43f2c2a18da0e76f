/* base.h - the read-only base of `rootfs: host`: an empty machine around the host's /usr. */
#ifndef HELPER_BASE_H
#define HELPER_BASE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "helper/plan_read.h"

/* Makes <dir>/<digest> or finds it there. Appends the answer of plan.h to `answer`. */
MUST_CHECK int base_make(const struct plan *p, struct buf *answer, struct err *err);

/* base_seen.c: what the host looks like. */
struct base_look {
    struct sha256 sum;
    int64_t newest; /* change, in seconds */
};

void base_look_init(struct base_look *l);
void base_look_add_text(struct base_look *l, const char *text);
void base_look_add(struct base_look *l, const char *name, const struct stat *st);
/* `ret` has room for 65. False: a change is so new that the next one may not be seen. */
bool base_look_end(struct base_look *l, char *ret);
/* The base in `dir` that was made when the host looked the same; `ret_digest` has room for 65. */
bool base_seen_find(int dir, const char *seen, char *ret_digest);
void base_seen_keep(int dir, const char *seen, const char *digest);

/* base_copy.c: what programs need of the host's /etc, and nothing else of it. With `look` nothing is copied: all that would
 * be is added to it. */
MUST_CHECK int base_copy_etc(int etc, struct base_look *look, struct err *err);
/* Everything in the directory `from` that all may read, to the directory `to`, given to `owner`.
 * A missing `from` is fine. */
MUST_CHECK int base_copy_dir(const char *from, int to, uint32_t owner, struct base_look *look,
                             struct err *err);

/* base_digest.c: of names, kinds, modes, owners, sizes and, if wanted, contents. `ret` has room for 65. */
MUST_CHECK int base_digest(int dir, bool want_content, char *ret, struct err *err);
/* "sha256:…" without contents, of a directory that boxes are built on. `ret` has room for DISK_DIGEST_MAX. */
MUST_CHECK int base_digest_of(const char *path, char *ret, struct err *err);

#endif
