/* load.c - sandpool-load: asks a daemon for work and says how long it took. Several kinds of work
 * are done in turns (rounds) over the same connections, so that what else the machine does
 * meanwhile touches all of them alike and their ratio can be trusted. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "bench/clients.h"

static const char usage_text[] =
    "usage: sandpool-load [--socket PATH] [options]\n"
    "\n"
    "Puts load on a sandpool daemon and prints how long its answers took.\n"
    "\n"
    "  --socket PATH   socket of the daemon (default: $SANDPOOL_SOCKET, then the usual one)\n"
    "  --work LIST     what to do, in turns: healthz, reclaim, warm, fill (default: all but fill)\n"
    "                    healthz  GET /healthz\n"
    "                    reclaim  acquire + release of the client's own, parked box\n"
    "                    warm     acquire for a new thread + release with destroy\n"
    "                    fill     acquire for a new thread; the boxes stay leased\n"
    "  --clients N     clients at the same time, each with its own connection (default 1)\n"
    "  --count N       operations of each kind, all clients and rounds together (default 10000)\n"
    "  --rounds N      turns that the operations are spread over (default 10)\n"
    "  --seconds N     stop each kind after this time, whatever was done by then (default 60)\n"
    "  --name TEXT     begins the names of the threads (default: made from the process id)\n"
    "  --json          one JSON object per kind instead of a table\n"
    "  --help          this text\n";

struct options {
    const char *socket;
    char name[32];
    enum work works[WORK_COUNT];
    unsigned work_count;
    uint64_t clients;
    uint64_t count;
    uint64_t rounds;
    uint64_t seconds;
    bool want_json;
};

static bool parse_works(const char *list, struct options *ret)
{
    ret->work_count = 0;
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        char name[16];

        if (ret->work_count == WORK_COUNT || !str_copy_n(name, sizeof(name), list, len) ||
            !work_from_name(name, &ret->works[ret->work_count]))
            return false;
        ret->work_count++;
        list += list[len] == ',' ? len + 1 : len;
    }
    return ret->work_count > 0;
}

static bool parse_option(int c, const char *arg, struct options *ret)
{
    switch (c) {
    case 's':
        ret->socket = arg;
        return true;
    case 'w':
        return parse_works(arg, ret);
    case 'c':
        return str_parse_u64(arg, 1, CLIENTS_MAX, &ret->clients);
    case 'n':
        return str_parse_u64(arg, 1, 1000000000, &ret->count);
    case 'r':
        return str_parse_u64(arg, 1, 1000, &ret->rounds);
    case 't':
        return str_parse_u64(arg, 1, 86400, &ret->seconds);
    case 'm':
        return str_copy(ret->name, sizeof(ret->name), arg) &&
               str_is_name(arg, sizeof(ret->name) - 1, "_.-");
    case 'j':
        ret->want_json = true;
        return true;
    default: /* what getopt did not know */
        return false;
    }
}

/* Exits for --help and mistakes. */
static void parse_options(int argc, char **argv, struct options *ret)
{
    static const struct option longs[] = {
        {"socket", required_argument, NULL, 's'},  {"work", required_argument, NULL, 'w'},
        {"clients", required_argument, NULL, 'c'}, {"count", required_argument, NULL, 'n'},
        {"rounds", required_argument, NULL, 'r'},  {"seconds", required_argument, NULL, 't'},
        {"name", required_argument, NULL, 'm'},    {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    bool is_good = true;

    *ret = (struct options){.works = {WORK_HEALTHZ, WORK_RECLAIM, WORK_WARM},
                            .work_count = 3,
                            .clients = 1,
                            .count = 10000,
                            .rounds = 10,
                            .seconds = 60};
    (void) snprintf(ret->name, sizeof(ret->name), "load-%d", (int) getpid());
    while (is_good) {
        int c = getopt_long(argc, argv, "", longs, NULL);

        if (c == -1)
            break;
        if (c == 'h') {
            (void) fputs(usage_text, stdout);
            exit(0);
        }
        is_good = parse_option(c, optarg, ret);
    }
    if (!is_good || optind != argc) {
        (void) fputs(usage_text, stderr);
        exit(2);
    }
}

static void run_rounds(const struct options *o, struct clients *all, struct work_result *results)
{
    uint64_t budget_ns = o->seconds * NS_PER_S;

    for (uint64_t round = 0; round < o->rounds; round++) {
        uint64_t count = o->count * (round + 1) / o->rounds - o->count * round / o->rounds;

        for (unsigned i = 0; count > 0 && i < o->work_count; i++) {
            struct work_result *r = &results[i];

            if (r->failures == 0 && r->elapsed_ns < budget_ns)
                clients_run(all, o->works[i], count, budget_ns - r->elapsed_ns, r);
        }
    }
}

static double rate_of(const struct work_result *r)
{
    return r->elapsed_ns > 0 ? (double) r->whole.count * 1e9 / (double) r->elapsed_ns : 0;
}

static double in_us(uint64_t ns)
{
    return (double) ns / 1000;
}

static void put_hist(struct json_out *o, const char *key, const struct hist *h)
{
    json_begin_obj(o, key);
    json_put_num(o, "p50", in_us(hist_percentile(h, 50)));
    json_put_num(o, "p90", in_us(hist_percentile(h, 90)));
    json_put_num(o, "p99", in_us(hist_percentile(h, 99)));
    json_put_num(o, "max", in_us(h->max_ns));
    json_put_num(o, "mean", in_us(hist_mean(h)));
    json_end(o);
}

static void print_json(const struct options *options, enum work work, const struct work_result *r)
{
    struct json_out o;
    struct buf text;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "work", work_name(work));
    json_put_u64(&o, "clients", options->clients);
    json_put_u64(&o, "count", r->whole.count);
    json_put_num(&o, "rate", rate_of(r));
    put_hist(&o, "us", &r->whole);
    if (r->acquire.count > 0) {
        put_hist(&o, "acquire_us", &r->acquire);
        json_put_num(&o, "as_meant", (double) r->as_meant / (double) r->acquire.count);
    }
    if (r->release.count > 0)
        put_hist(&o, "release_us", &r->release);
    json_put_u64(&o, "failures", r->failures);
    json_put_str(&o, "failure", r->failures > 0 ? r->failure : NULL);
    json_end(&o);
    buf_init(&text, 64 * 1024);
    json_out_finish(&o, &text);
    (void) printf("%s\n", buf_str(&text));
    buf_fini(&text);
}

static void print_row(const char *work, const char *part, const struct hist *h)
{
    (void) printf("%-8s %-8s %10llu %9.1f %9.1f %9.1f %9.1f", work, part,
                  (unsigned long long) h->count, in_us(hist_percentile(h, 50)),
                  in_us(hist_percentile(h, 90)), in_us(hist_percentile(h, 99)), in_us(h->max_ns));
}

static void print_table(enum work work, const struct work_result *r)
{
    print_row(work_name(work), "whole", &r->whole);
    (void) printf(" %10.0f", rate_of(r));
    if (r->acquire.count > 0)
        (void) printf("  %5.1f%%", 100 * (double) r->as_meant / (double) r->acquire.count);
    (void) printf("\n");
    if (r->release.count > 0) {
        print_row("", "acquire", &r->acquire);
        (void) printf("\n");
        print_row("", "release", &r->release);
        (void) printf("\n");
    }
    if (r->failures > 0)
        (void) printf("%-8s %llu clients failed, the first: %s\n", work_name(work),
                      (unsigned long long) r->failures, r->failure);
}

int main(int argc, char **argv)
{
    struct options options;
    struct work_result *results;
    struct clients *all;
    bool is_good = true;

    parse_options(argc, argv, &options);
    results = xcalloc(options.work_count, sizeof(*results));
    all = clients_new(options.socket, (unsigned) options.clients, options.name);
    run_rounds(&options, all, results);
    if (!options.want_json)
        (void) printf("%-8s %-8s %10s %9s %9s %9s %9s %10s  %s\n", "work", "part", "count",
                      "p50 us", "p90", "p99", "max", "rate /s", "from parked/warm");
    for (unsigned i = 0; i < options.work_count; i++) {
        if (options.want_json)
            print_json(&options, options.works[i], &results[i]);
        else
            print_table(options.works[i], &results[i]);
        is_good = is_good && results[i].failures == 0;
    }
    (void) clients_free(all);
    free(results);
    return is_good && fflush(stdout) == 0 ? 0 : 1;
}
