/* resolve.c - uv_getaddrinfo() as an operation. A look-up that hangs cannot be stopped, so a cancel
 * leaves it to itself: the job forgets its request and is freed when the thread comes back. */
#include "loop/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "base/mem.h"

enum { KEEP_S = 5 };

struct job {
    uv_getaddrinfo_t req;
    struct resolve *resolve; /* NULL: nobody waits any more */
};

/* --- what is remembered --- */

static void remember(struct resolve_cache *cache, const struct resolve *r)
{
    size_t oldest = 0;

    resolve_forget(cache, r->host);
    for (size_t i = 1; i < RESOLVE_KEPT; i++)
        if (cache->kept[i].until_ns < cache->kept[oldest].until_ns)
            oldest = i;
    snprintf(cache->kept[oldest].host, RESOLVE_HOST, "%s", r->host);
    cache->kept[oldest].until_ns = rt_after(rt_now(r->op.rt), KEEP_S * NS_PER_S);
    cache->kept[oldest].addrs = r->addrs;
}

static bool recall(const struct resolve_cache *cache, struct resolve *r)
{
    for (size_t i = 0; i < RESOLVE_KEPT; i++) {
        if (cache->kept[i].until_ns <= rt_now(r->op.rt) ||
            strcasecmp(cache->kept[i].host, r->host) != 0)
            continue;
        r->addrs = cache->kept[i].addrs;
        return true;
    }
    return false;
}

void resolve_forget(struct resolve_cache *cache, const char *host)
{
    for (size_t i = 0; i < RESOLVE_KEPT; i++)
        if (strcasecmp(cache->kept[i].host, host) == 0)
            cache->kept[i].until_ns = 0;
}

/* --- the look-up --- */

static void take_addrs(struct resolve_addrs *addrs, const struct addrinfo *found)
{
    for (; found != NULL && addrs->count < RESOLVE_ADDRS; found = found->ai_next) {
        char *text = addrs->text[addrs->count];
        const void *addr;

        if (found->ai_family == AF_INET)
            addr = &((const struct sockaddr_in *) (const void *) found->ai_addr)->sin_addr;
        else if (found->ai_family == AF_INET6)
            addr = &((const struct sockaddr_in6 *) (const void *) found->ai_addr)->sin6_addr;
        else
            continue;
        if (inet_ntop(found->ai_family, addr, text, RESOLVE_TEXT) != NULL)
            addrs->count++;
    }
}

static void on_found(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct job *j = container_of(req, struct job, req);
    struct resolve *r = j->resolve;
    struct err err;

    free(j);
    if (r != NULL) {
        r->job = NULL;
        if (status == 0)
            take_addrs(&r->addrs, found);
    }
    uv_freeaddrinfo(found);
    if (r == NULL)
        return;
    if (r->addrs.count > 0) {
        remember(r->cache, r);
        op_finish(&r->op, SP_OK, NULL);
        return;
    }
    (void) err_set(&err, SP_CONNECT_FAILED, "host '%.100s' is not found: %s", r->host,
                   status != 0 ? uv_strerror(status) : "it has no address");
    err.sys = -status;
    op_finish(&r->op, SP_CONNECT_FAILED, &err);
}

static void on_cancel(struct op *op)
{
    struct resolve *r = container_of(op, struct resolve, op);
    struct job *j = r->job;

    if (j == NULL)
        return; /* over */
    j->resolve = NULL;
    r->job = NULL;
    (void) uv_cancel((uv_req_t *) &j->req); /* busy: the thread ends it */
    op_finish(op, SP_CANCELLED, NULL);
}

void resolve_start(struct loop *l, struct resolve *r, struct resolve_cache *cache,
                   uint64_t deadline_ns, void (*on_done)(struct op *))
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct job *j;
    int rc;

    op_begin(&r->op, &l->rt, NULL, deadline_ns, on_cancel, on_done);
    r->cache = cache;
    r->job = NULL;
    r->addrs.count = 0;
    if (recall(cache, r)) {
        op_finish(&r->op, SP_OK, NULL);
        return;
    }
    j = xcalloc(1, sizeof(*j));
    j->resolve = r;
    r->job = j;
    rc = uv_getaddrinfo(&l->uv, &j->req, on_found, r->host, NULL, &hints);
    if (rc != 0)
        on_found(&j->req, rc, NULL); /* no memory, or a name it cannot take */
}
