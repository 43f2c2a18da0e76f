/* probe.h - readiness: GET {url}/v1/sandbox until it answers 200, or once. The first probe comes at once,
 * then after 2, 4, 8 ... 250 ms; one request takes at most 5 s; all is clamped to the deadline.
 * Fails with SP_TIMEOUT and the last thing that went wrong, or SP_CANCELLED. */
#ifndef BOX_PROBE_H
#define BOX_PROBE_H

#include "base/op.h"
#include "box/life.h"
#include "loop/httpc.h"

#define PROBE_REQUEST_TIMEOUT_NS (5 * NS_PER_S)

struct probe {
    struct op op;
    /* set by the caller, copied at start */
    char url[256];
    char token[80]; /* "" for none; sent as Authorization: Bearer */
    bool is_once;   /* fails with the first answer that is not 200 */
    bool want_life; /* see life.h; may take a second question */
    /* results */
    unsigned attempts;
    char life[BACKEND_LIFE_MAX + 1]; /* "": not known */
    /* the probe's own */
    struct httpc *http;
    struct httpc_request request;
    struct rt_timer pause;
    uint64_t pause_ns;
    uint64_t deadline_ns;
    char target[288];
    char auth_header[128];
    const char *headers[3];
    struct err last;
    bool is_cancelled;
};

void probe_start(struct httpc *http, struct rt *rt, struct probe *p, struct list *owner,
                 uint64_t deadline_ns, void (*on_done)(struct op *));
/* A hint that the box is ready now: sends the next probe at once. */
void probe_hurry(struct probe *p);

#endif
