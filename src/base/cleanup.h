/* cleanup.h - scope-bound release of synchronous resources. The success path takes, every
 * other path is cleaned by scope. */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
    free(*(void **) p);
}

static inline void cleanup_close(const int *fd)
{
    if (*fd >= 0)
        (void) close(*fd); /* nothing to do about it here */
}

#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
#define AUTO_CLOSE __attribute__((cleanup(cleanup_close)))

#define TAKE_PTR(p)             \
    __extension__({             \
        __typeof__(p) t_ = (p); \
        (p) = NULL;             \
        t_;                     \
    })

#define TAKE_FD(fd)    \
    __extension__({    \
        int t_ = (fd); \
        (fd) = -1;     \
        t_;            \
    })

#endif
