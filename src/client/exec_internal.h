/* exec_internal.h - what the files of exec.h share. */
#ifndef CLIENT_EXEC_INTERNAL_H
#define CLIENT_EXEC_INTERNAL_H

#include "client/box_internal.h"
#include "sandpool/exec.h"

enum { EXEC_REQUEST_MAX = 8 * 1024 * 1024 };

/* The body of the call into `out`. SP_INVALID_FIELD when something of it cannot be sent as it is. */
MUST_CHECK int exec_encode(const struct sp_exec *e, bool is_job, struct buf *out,
                           struct sp_failure *f);
bool exec_is_job(const char *job);

/* Output that is kept: the first and the last half of `max`. */
struct exec_kept {
    size_t head_max;
    size_t tail_max;
    struct buf head;
    struct buf tail;
    bool is_cut;
};

void exec_kept_init(struct exec_kept *k, size_t max);
void exec_kept_fini(struct exec_kept *k);
void exec_kept_add(struct exec_kept *k, const char *data, size_t len);
/* From malloc, NUL-terminated; NULL: no memory. */
char *exec_kept_take(struct exec_kept *k, size_t *ret_len);

#endif
