/* mem.h - allocation. x*() is for small, bounded, internal sizes and aborts when memory is gone;
 * try_*() is for sizes a peer chooses and may return NULL. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

MUST_CHECK void *xcalloc(size_t count, size_t size);
MUST_CHECK void *xrealloc(void *p, size_t size);
MUST_CHECK char *xstrdup(const char *s);

MUST_CHECK void *try_realloc(void *p, size_t size);

/* Tests only: the n-th try_* call from now fails (1 = the next); with `persistent` all after it
 * fail too. 0 switches the fault off. */
void mem_fail_after(unsigned n, bool persistent);

#endif
