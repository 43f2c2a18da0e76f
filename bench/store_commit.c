/* store_commit.c - how long the store alone takes from a write to its durable answer: one writer
 * thread, one caller that submits a group, waits for it, and submits the next. What it prints is
 * the part of an acquire that no change to the rest of the daemon can win back. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "bench/hist.h"
#include "store/store.h"

enum { GROUP_MAX = 64, BOXES = 1000 };

struct bench {
    struct rt rt;
    struct store *store;
    sem_t woken;
    struct store_write writes[GROUP_MAX];
    char ids[GROUP_MAX][17];
    unsigned waiting;
    unsigned failed;
};

struct item {
    const char *label;
    unsigned group;
    bool want_power;
    uint64_t count;
};

static struct bench bench; /* the operations have no other way to it */

static void on_wake(void *ctx)
{
    struct bench *b = ctx;

    (void) sem_post(&b->woken); /* overflow would need two billion unseen wakes */
}

static void on_state(void *ctx UNUSED, bool is_up, const char *reason)
{
    (void) fprintf(stderr, "store %s: %s\n", is_up ? "up" : "down", reason);
}

static void on_done(struct op *op)
{
    bench.waiting--;
    bench.failed += op->result != SP_OK;
}

static void submit(struct bench *b, unsigned slot, uint64_t number, bool want_power)
{
    struct store_write *w = &b->writes[slot];
    uint64_t box = number % BOXES + 1;

    str_hex64(b->ids[slot], box);
    *w = (struct store_write){.kind = STORE_PUT_LEASE, .want_power = want_power};
    w->u.box = (struct store_box){
        .id = box,
        .state = number / BOXES % 2 == 0 ? "leased" : "parked",
        .profile = "default",
        .backend = "sim",
        .sandbox_id = b->ids[slot],
        .user = "default",
        .thread = b->ids[slot],
        .generation = 1,
        .url = "http://127.0.0.1:8080",
        .token = "0123456789abcdef0123456789abcdef",
        .created_ms = 1,
    };
    b->waiting++;
    store_submit(b->store, w, on_done);
}

static void wait_group(struct bench *b)
{
    while (b->waiting > 0) {
        (void) sem_wait(&b->woken); /* interrupted: looks again */
        rt_refresh(&b->rt);
        store_drain(b->store);
        rt_run(&b->rt);
    }
}

static void run_item(struct bench *b, const struct item *item)
{
    struct hist h = {0};
    uint64_t begin_ns = hist_now_ns();
    uint64_t elapsed_ns;

    for (uint64_t done = 0; done < item->count; done += item->group) {
        uint64_t group_ns = hist_now_ns();

        for (unsigned i = 0; i < item->group; i++)
            submit(b, i, done + i, item->want_power);
        wait_group(b);
        hist_add(&h, hist_now_ns() - group_ns);
    }
    elapsed_ns = hist_now_ns() - begin_ns;
    (void) printf("%-22s %5u %9.1f %9.1f %9.1f %12.0f\n", item->label, item->group,
                  (double) hist_percentile(&h, 50) / 1000, (double) hist_percentile(&h, 99) / 1000,
                  (double) h.max_ns / 1000,
                  (double) item->count * 1e9 / (double) (elapsed_ns > 0 ? elapsed_ns : 1));
}

int main(int argc, char **argv)
{
    static const struct item items[] = {{"process (WAL, NORMAL)", 1, false, 20000},
                                        {"process (WAL, NORMAL)", 32, false, 64000},
                                        {"power (WAL, FULL)", 1, true, 500},
                                        {"power (WAL, FULL)", 32, true, 16000}};
    struct store_config config = {.rt = &bench.rt,
                                  .queue_max = 4096,
                                  .batch_max = 256,
                                  .events_max = 1000,
                                  .past_max = 1000,
                                  .wake = on_wake,
                                  .on_state = on_state,
                                  .ctx = &bench};
    struct err err;

    if (argc != 2 || argv[1][0] == '-') {
        (void) fprintf(stderr, "usage: bench-store FILE (a database that is not there yet)\n");
        return 2;
    }
    config.path = argv[1];
    rt_init(&bench.rt);
    (void) sem_init(&bench.woken, 0, 0); /* cannot fail for 0 */
    if (store_open(&config, &bench.store, &err) != SP_OK ||
        store_start(bench.store, &err) != SP_OK) {
        (void) fprintf(stderr, "bench-store: %s\n", err.msg);
        return 1;
    }
    (void) printf("%-22s %5s %9s %9s %9s %12s\n", "durability", "group", "p50 us", "p99", "max",
                  "writes /s");
    for (size_t i = 0; i < ARRAY_LEN(items); i++)
        run_item(&bench, &items[i]);
    (void) store_close(bench.store);
    rt_run(&bench.rt);
    rt_fini(&bench.rt);
    if (bench.failed > 0)
        (void) fprintf(stderr, "bench-store: %u writes failed\n", bench.failed);
    return bench.failed > 0;
}
