/* deaths.h - reports to clients which boxes died: the last deaths in a ring, and clients that wait for
 * the next (GET /watch).
 *
 * Deaths are numbered from 1 within one life of the process, which `epoch` names. A client asks for
 * what came after the number it knows; when the epoch is another, or the ring has gone past that
 * number, the answer says "resync": list again. A client that knows no epoch gets all there is. */
#ifndef SIM_DEATHS_H
#define SIM_DEATHS_H

#include <stdint.h>

#include "base/list.h"
#include "base/rt.h"
#include "http/http.h"

enum { DEATHS_KEPT = 4096, DEATHS_ANSWER = 512, DEATHS_WAIT_MAX_MS = 60000 };

struct deaths {
    struct rt *rt;
    uint64_t epoch;
    uint64_t count; /* number of the last death */
    struct death *ring;
    struct list waiting;
    struct rt_task notify;
};

void deaths_init(struct deaths *d, struct rt *rt);
/* After the server has closed: nobody waits any more. */
void deaths_fini(struct deaths *d);
void deaths_add(struct deaths *d, uint64_t box_id, const char *reason);
/* Answers GET /watch?epoch=&since=&wait_ms= now or when something died. */
void deaths_watch(struct deaths *d, struct http_exchange *ex);

#endif
