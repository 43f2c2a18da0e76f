/* files.c - open files: refusing a connection ourselves beats the kernel dropping it without a word, or a box
 * that cannot be made or removed because callers have all the descriptors. */
#include "daemon/files.h"

#include "base/compiler.h"
#include "base/log.h"
#include "base/str.h"

enum {
    FILES_OWN = 1024,  /* store, engines, backends, boxes that are being talked to, operators */
    FILES_PER_BOX = 2, /* its process, and a conversation with it */
    PARTS_MAX = 5,
};

/* Gives each what it wants, or the same as the others that want more. */
static void divide(unsigned *parts[PARTS_MAX], uint64_t rest)
{
    bool is_done[PARTS_MAX] = {false};
    unsigned left = 0;

    for (unsigned i = 0; i < PARTS_MAX; i++) {
        is_done[i] = *parts[i] == 0;
        left += is_done[i] ? 0 : 1;
    }
    while (left > 0) {
        uint64_t even = rest / left;
        unsigned before = left;

        for (unsigned i = 0; i < PARTS_MAX; i++) {
            if (is_done[i] || *parts[i] > even)
                continue;
            is_done[i] = true;
            rest -= *parts[i];
            left--;
        }
        if (left < before)
            continue;
        for (unsigned i = 0; i < PARTS_MAX; i++)
            if (!is_done[i])
                *parts[i] = (unsigned) MAX_OF(even, (uint64_t) 1);
        return;
    }
}

void files_divide(const struct config *c, uint64_t limit, struct files *ret)
{
    unsigned *parts[PARTS_MAX] = {&ret->connections, &ret->requests, &ret->calls,
                                  &ret->provisioner_connections, &ret->provisioner_requests};
    uint64_t own = FILES_OWN + FILES_PER_BOX * c->pool.max_boxes;
    uint64_t sum = 0;

    *ret = (struct files){.connections = (unsigned) c->http.max_connections,
                          .calls = (unsigned) c->calls.max};
    if (!str_is_empty(c->tcp.listen))
        ret->requests = (unsigned) c->tcp.max_requests;
    if (c->provisioner.enabled) {
        ret->provisioner_connections = (unsigned) c->provisioner.max_connections;
        ret->provisioner_requests = (unsigned) c->provisioner.max_requests;
    }
    for (unsigned i = 0; i < PARTS_MAX; i++)
        sum += *parts[i];
    if (limit >= own + sum)
        return;
    divide(parts, limit - MIN_OF(own, limit / 2));
    log_warn("http.connections_limited", LF_U64("max_connections", ret->connections),
             LF_U64("tcp_max_requests", ret->requests), LF_U64("calls_max", ret->calls),
             LF_U64("provisioner_max_connections", ret->provisioner_connections),
             LF_U64("provisioner_max_requests", ret->provisioner_requests),
             LF_U64("open_files", limit));
}
