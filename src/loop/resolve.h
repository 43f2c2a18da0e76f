/* resolve.h - looks a host name up on a thread, as an operation. A cancel or a deadline ends it at once;
 * the thread finishes its work alone (a loop that is closed meanwhile waits for it). What was found is
 * remembered for a few seconds. */
#ifndef LOOP_RESOLVE_H
#define LOOP_RESOLVE_H

#include "base/op.h"
#include "loop/loop.h"

enum {
    RESOLVE_ADDRS = 6,  /* of a name; further ones are left out */
    RESOLVE_TEXT = 46,  /* of an address, with its NUL */
    RESOLVE_HOST = 254, /* of a name, with its NUL */
    RESOLVE_KEPT = 16   /* names that are remembered */
};

/* In the order in which they should be tried, as text without brackets. */
struct resolve_addrs {
    size_t count;
    char text[RESOLVE_ADDRS][RESOLVE_TEXT];
};

/* Zero it first; holds no resources. */
struct resolve_cache {
    struct {
        char host[RESOLVE_HOST];
        uint64_t until_ns;
        struct resolve_addrs addrs;
    } kept[RESOLVE_KEPT];
};

struct resolve {
    struct op op;
    const char *host;           /* set by the caller, borrowed until on_done() */
    struct resolve_addrs addrs; /* filled in by on_done() with SP_OK: at least one */
    struct resolve_cache *cache;
    void *job;
};

/* Errors: SP_CONNECT_FAILED, SP_TIMEOUT, SP_CANCELLED. */
void resolve_start(struct loop *l, struct resolve *r, struct resolve_cache *cache,
                   uint64_t deadline_ns, void (*on_done)(struct op *));
/* The addresses did not help: look again next time. */
void resolve_forget(struct resolve_cache *cache, const char *host);

#endif
