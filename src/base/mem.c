/* mem.c - allocation with one policy for running out of memory: internal sizes abort (the daemon
 * restarts from its store), sizes chosen by a peer are an error that is reported to that peer. */
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned fail_countdown;
static bool fail_persistent;

static NORETURN void out_of_memory(size_t size)
{
    (void) fprintf(stderr, "sandpool: out of memory (%zu bytes)\n", size);
    abort();
}

void *xcalloc(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (p == NULL && count != 0 && size != 0)
        out_of_memory(count * size);
    return p;
}

void *xrealloc(void *p, size_t size)
{
    void *q = realloc(p, size);

    if (q == NULL && size != 0)
        out_of_memory(size);
    return q;
}

char *xstrdup(const char *s)
{
    size_t len = strlen(s) + 1;
    char *copy = xcalloc(1, len);

    assert(copy != NULL); /* the length is not 0 */
    memcpy(copy, s, len);
    return copy;
}

void *try_realloc(void *p, size_t size)
{
    if (fail_countdown > 0) {
        fail_countdown--;
        if (fail_countdown == 0) {
            if (fail_persistent)
                fail_countdown = 1;
            return NULL;
        }
    }
    return realloc(p, size);
}

void mem_fail_after(unsigned n, bool persistent)
{
    fail_countdown = n;
    fail_persistent = persistent;
}
