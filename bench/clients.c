/* clients.c - the work itself. Operations are numbered and taken one by one from a shared counter,
 * so that no client waits for another and the total is exact; what is measured stays with the
 * client until all are done. */
#include "bench/clients.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "sandpool/client.h"

enum { NAME_MAX_BYTES = 63 };

struct client {
    struct clients *all;
    struct sp_client *api;
    pthread_t thread;
    char own[NAME_MAX_BYTES + 32]; /* its thread_id for WORK_RECLAIM */
    struct work_result result;
};

struct clients {
    char name[NAME_MAX_BYTES + 1];
    unsigned count;
    struct client *clients;
    pthread_barrier_t start;
    /* of the run that is under way */
    enum work work;
    uint64_t limit;
    uint64_t until_ns;
    atomic_uint_fast64_t taken;
    uint64_t fresh; /* thread_ids used up by earlier runs */
};

static const char *const names[WORK_COUNT] = {"healthz", "reclaim", "warm", "fill"};

const char *work_name(enum work work)
{
    return names[work];
}

bool work_from_name(const char *name, enum work *ret)
{
    for (unsigned i = 0; i < WORK_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret = (enum work) i;
            return true;
        }
    }
    return false;
}

/* --- one operation; each returns SP_OK or a code with `f` filled --- */

static int do_healthz(struct client *c, struct sp_failure *f)
{
    uint64_t begin_ns = hist_now_ns();
    char *body = NULL;
    int r = sp_call(c->api, "GET", "/healthz", NULL, &body, f);

    free(body);
    if (r == SP_OK)
        hist_add(&c->result.whole, hist_now_ns() - begin_ns);
    return r;
}

static int do_lease(struct client *c, const char *thread, const char *meant, bool want_release,
                    bool want_destroy, struct sp_failure *f)
{
    struct sp_acquire ask = {.thread_id = thread};
    struct work_result *result = &c->result;
    struct sp_lease lease;
    uint64_t begin_ns = hist_now_ns();
    uint64_t leased_ns;
    uint64_t end_ns;
    int r = sp_acquire(c->api, &ask, &lease, f);

    if (r != SP_OK)
        return r;
    leased_ns = hist_now_ns();
    end_ns = leased_ns;
    if (want_release) {
        r = sp_release(c->api, lease.sandbox_id, lease.generation, want_destroy, f);
        if (r != SP_OK)
            return r;
        end_ns = hist_now_ns();
        hist_add(&result->release, end_ns - leased_ns);
    }
    hist_add(&result->acquire, leased_ns - begin_ns);
    hist_add(&result->whole, end_ns - begin_ns);
    result->as_meant += strcmp(lease.source, meant) == 0;
    return SP_OK;
}

static int do_work(struct client *c, uint64_t number, struct sp_failure *f)
{
    char fresh[NAME_MAX_BYTES + 32];

    (void) snprintf(fresh, sizeof(fresh), "%s-%llu", c->all->name,
                    (unsigned long long) (c->all->fresh + number));
    switch (c->all->work) {
    case WORK_HEALTHZ:
        return do_healthz(c, f);
    case WORK_RECLAIM:
        return do_lease(c, c->own, "parked", true, false, f);
    case WORK_WARM:
        return do_lease(c, fresh, "warm", true, true, f);
    case WORK_FILL:
        return do_lease(c, fresh, "warm", false, false, f);
    case WORK_COUNT:
        break;
    }
    abort();
}

/* --- one client --- */

/* The connection is made and the client's own box is parked before the clock starts. */
static int prepare(struct client *c, struct sp_failure *f)
{
    int r = do_healthz(c, f);

    if (r == SP_OK && c->all->work == WORK_RECLAIM)
        r = do_lease(c, c->own, "", true, false, f);
    memset(&c->result, 0, sizeof(c->result));
    return r;
}

static void *client_main(void *arg)
{
    struct client *c = arg;
    struct clients *all = c->all;
    struct sp_failure failure = {0};
    int r = prepare(c, &failure);

    (void) pthread_barrier_wait(&all->start); /* ready */
    (void) pthread_barrier_wait(&all->start); /* go */
    while (r == SP_OK && hist_now_ns() < all->until_ns) {
        uint64_t number = atomic_fetch_add_explicit(&all->taken, 1, memory_order_relaxed);

        if (number >= all->limit)
            break;
        r = do_work(c, number, &failure);
    }
    if (r != SP_OK) {
        c->result.failures++;
        str_copy_cut(c->result.failure, sizeof(c->result.failure), failure.message);
    }
    return NULL;
}

/* --- all of them --- */

struct clients *clients_new(const char *socket, unsigned count, const char *name)
{
    struct clients *all = xcalloc(1, sizeof(*all));
    int rc;

    assert(count > 0 && count <= CLIENTS_MAX);
    all->count = count;
    str_copy_cut(all->name, sizeof(all->name), name);
    all->clients = xcalloc(count, sizeof(*all->clients));
    rc = pthread_barrier_init(&all->start, NULL, count + 1);
    assert(rc == 0);
    for (unsigned i = 0; i < count; i++) {
        struct client *c = &all->clients[i];

        c->all = all;
        c->api = sp_client_new(socket);
        (void) snprintf(c->own, sizeof(c->own), "%s.own-%u", all->name, i);
    }
    return all;
}

struct clients *clients_free(struct clients *all)
{
    for (unsigned i = 0; i < all->count; i++)
        sp_client_free(all->clients[i].api);
    (void) pthread_barrier_destroy(&all->start);
    free(all->clients);
    free(all);
    return NULL;
}

static void add_result(struct work_result *into, const struct work_result *from)
{
    hist_merge(&into->whole, &from->whole);
    hist_merge(&into->acquire, &from->acquire);
    hist_merge(&into->release, &from->release);
    into->as_meant += from->as_meant;
    into->failures += from->failures;
    if (into->failure[0] == '\0')
        str_copy_cut(into->failure, sizeof(into->failure), from->failure);
}

void clients_run(struct clients *all, enum work work, uint64_t count, uint64_t budget_ns,
                 struct work_result *result)
{
    uint64_t begin_ns;
    int rc;

    all->work = work;
    all->limit = count;
    atomic_store(&all->taken, 0);
    for (unsigned i = 0; i < all->count; i++) {
        rc = pthread_create(&all->clients[i].thread, NULL, client_main, &all->clients[i]);
        assert(rc == 0);
    }
    (void) pthread_barrier_wait(&all->start);
    begin_ns = hist_now_ns();
    all->until_ns = begin_ns + budget_ns;
    (void) pthread_barrier_wait(&all->start);
    for (unsigned i = 0; i < all->count; i++) {
        rc = pthread_join(all->clients[i].thread, NULL);
        assert(rc == 0);
    }
    result->elapsed_ns += hist_now_ns() - begin_ns;
    for (unsigned i = 0; i < all->count; i++)
        add_result(result, &all->clients[i].result);
    all->fresh += count;
}
