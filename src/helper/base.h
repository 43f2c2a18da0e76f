/* base.h - the read-only base of `rootfs: host`: an empty machine around the host's /usr. */
#ifndef HELPER_BASE_H
#define HELPER_BASE_H

#include "base/buf.h"
#include "helper/plan_read.h"

/* Makes <dir>/<digest> or finds it there. Appends the answer of plan.h to `answer`. */
MUST_CHECK int base_make(const struct plan *p, struct buf *answer, struct err *err);

/* base_copy.c: what programs need of the host's /etc, and nothing else of it. */
MUST_CHECK int base_copy_etc(int etc, struct err *err);
/* Everything in the directory `from` that all may read, to the directory `to`, given to `owner`.
 * A missing `from` is fine. */
MUST_CHECK int base_copy_dir(const char *from, int to, uint32_t owner, struct err *err);

/* base_digest.c: of names, kinds, modes, owners and contents. `ret` has room for 65. */
MUST_CHECK int base_digest(int dir, char *ret, struct err *err);

#endif
