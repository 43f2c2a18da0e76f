/* top_metrics.c - acquires by source, from the histograms of GET /metrics: since the daemon's start, and in the last
 * minute, which is what was added to the oldest of some samples. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/top.h"

#define BUCKET "sandpool_acquire_duration_seconds_bucket{source=\""

/* --- reading --- */

/* Moves *s behind what was expected. */
static bool skip(const char **s, const char *text)
{
    size_t len = strlen(text);

    if (strncmp(*s, text, len) != 0)
        return false;
    *s += len;
    return true;
}

/* Up to the quote, which is skipped: a short word without escapes. */
static bool take_label(const char **s, char *dst, size_t cap)
{
    size_t len = strcspn(*s, "\"\\\n");

    if (len == 0 || (*s)[len] != '"' || !str_copy_n(dst, cap, *s, len))
        return false;
    *s += len + 1;
    return true;
}

static bool parse_bound(const char *text, double *ret)
{
    char *end;

    if (strcmp(text, "+Inf") == 0) {
        *ret = INFINITY;
        return true;
    }
    if (strspn(text, "0123456789.e-+") != strlen(text) || text[0] < '0' || text[0] > '9')
        return false;
    *ret = strtod(text, &end);
    return *end == '\0' && isfinite(*ret);
}

static struct top_source *source_of(struct top_sample *s, const char *name)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (strcmp(s->sources[i].name, name) == 0)
            return &s->sources[i];
    }
    if (s->count == TOP_SOURCES_MAX)
        return NULL;
    str_copy_cut(s->sources[s->count].name, sizeof(s->sources[0].name), name);
    return &s->sources[s->count++];
}

/* Buckets come in order, each with all below it; only the last has no bound. */
static bool add_bucket(struct top_source *s, double bound, uint64_t n, uint64_t *below)
{
    if (s->buckets > TOP_BUCKETS_MAX || n < *below)
        return false;
    if (s->buckets > 0 && !(s->bounds[s->buckets - 1] < bound))
        return false;
    s->counts[s->buckets] = n - *below;
    if (isinf(bound)) {
        *below = UINT64_MAX; /* nothing may follow */
        return true;
    }
    if (s->buckets == TOP_BUCKETS_MAX)
        return false;
    s->bounds[s->buckets++] = bound;
    *below = n;
    return true;
}

static bool take_line(struct top_sample *s, uint64_t below[TOP_SOURCES_MAX], const char *line)
{
    char name[sizeof(s->sources[0].name)];
    char text[32];
    struct top_source *source;
    double bound;
    uint64_t n;
    size_t len;

    if (!take_label(&line, name, sizeof(name)) || !skip(&line, ",le=\"") ||
        !take_label(&line, text, sizeof(text)) || !parse_bound(text, &bound) || !skip(&line, "} "))
        return false;
    len = strcspn(line, "\n");
    if (!str_copy_n(text, sizeof(text), line, len) || !str_parse_u64(text, 0, UINT64_MAX / 2, &n))
        return false;
    source = source_of(s, name);
    return source != NULL && add_bucket(source, bound, n, &below[source - s->sources]);
}

static bool read_metrics(struct top_sample *s, const char *text)
{
    uint64_t below[TOP_SOURCES_MAX] = {0};

    for (; *text != '\0'; text += strcspn(text, "\n"), text += *text == '\n') {
        const char *line = text;

        if (skip(&line, BUCKET) && !take_line(s, below, line))
            return false;
    }
    for (unsigned i = 0; i < s->count; i++) {
        if (below[i] != UINT64_MAX)
            return false; /* cut off */
    }
    return true;
}

/* --- the last minute --- */

static bool has_same_buckets(const struct top_source *a, const struct top_source *b)
{
    return strcmp(a->name, b->name) == 0 && a->buckets == b->buckets &&
           memcmp(a->bounds, b->bounds, a->buckets * sizeof(a->bounds[0])) == 0;
}

/* False after a restart of the daemon: its counters begin at 0. */
static bool continues(const struct top_sample *a, const struct top_sample *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned i = 0; i < a->count; i++) {
        if (!has_same_buckets(&a->sources[i], &b->sources[i]))
            return false;
        for (unsigned k = 0; k <= a->sources[i].buckets; k++) {
            if (b->sources[i].counts[k] < a->sources[i].counts[k])
                return false;
        }
    }
    return true;
}

static void keep(struct top *t, const struct top_sample *s)
{
    const struct top_sample *last = t->before_count > 0 ? &t->before[t->before_count - 1] : NULL;

    if (last != NULL && (!continues(&t->acquires, s) || s->at_ms < last->at_ms)) {
        t->before_count = 0;
        last = NULL;
    }
    if (last != NULL && s->at_ms - last->at_ms < TOP_SAMPLE_MS)
        return;
    if (t->before_count == TOP_SAMPLES) {
        memmove(&t->before[0], &t->before[1], (TOP_SAMPLES - 1) * sizeof(t->before[0]));
        t->before_count--;
    }
    t->before[t->before_count++] = *s;
}

bool top_take_metrics(struct top *t, const char *text, uint64_t now_ms)
{
    struct top_sample *s = xcalloc(1, sizeof(*s));
    bool is_good = read_metrics(s, text);

    if (is_good) {
        s->at_ms = MAX_OF(now_ms, 1U);
        keep(t, s);
        t->acquires = *s;
    }
    free(s);
    return is_good;
}

/* --- answers --- */

static const struct top_source *base_of(const struct top *t, unsigned source, bool is_recent)
{
    return is_recent && t->before_count > 0 ? &t->before[0].sources[source] : NULL;
}

void top_acquires_of(const struct top *t, unsigned source, bool is_recent, struct top_acquires *ret)
{
    const struct top_source *s = &t->acquires.sources[source];
    const struct top_source *base = base_of(t, source, is_recent);
    uint64_t counts[TOP_BUCKETS_MAX + 1];

    *ret = (struct top_acquires){.p50_s = -1, .p99_s = -1};
    if (source >= t->acquires.count)
        return;
    for (unsigned i = 0; i <= s->buckets; i++) {
        counts[i] = s->counts[i] - (base != NULL ? base->counts[i] : 0);
        ret->count += counts[i];
    }
    if (ret->count == 0)
        return;
    ret->p50_s = histogram_quantile(s->bounds, counts, s->buckets, 0.5);
    ret->p99_s = histogram_quantile(s->bounds, counts, s->buckets, 0.99);
}

double top_hit_rate(const struct top *t, bool is_recent)
{
    uint64_t warm = 0;
    uint64_t cold = 0;

    for (unsigned i = 0; i < t->acquires.count; i++) {
        struct top_acquires a;

        top_acquires_of(t, i, is_recent, &a);
        if (strcmp(t->acquires.sources[i].name, "warm") == 0)
            warm = a.count;
        else if (strcmp(t->acquires.sources[i].name, "cold") == 0)
            cold = a.count;
    }
    return warm + cold > 0 ? (double) warm / (double) (warm + cold) : -1;
}

double top_acquires_per_s(const struct top *t)
{
    uint64_t all = 0;

    if (t->before_count == 0 || t->acquires.at_ms <= t->before[0].at_ms)
        return -1;
    for (unsigned i = 0; i < t->acquires.count; i++) {
        struct top_acquires a;

        top_acquires_of(t, i, true, &a);
        all += a.count;
    }
    return (double) all * 1000 / (double) (t->acquires.at_ms - t->before[0].at_ms);
}
