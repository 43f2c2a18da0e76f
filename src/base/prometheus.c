/* prometheus.c - the text format of Prometheus. */
#include "base/prometheus.h"

#include <inttypes.h>
#include <stdio.h>

#define NS_PER_SECOND UINT64_C(1000000000)

enum { SECONDS_MAX = 40 };

void prom_family(struct prom *p, const char *name, enum prom_type type, const char *help)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};

    p->name = name;
    buf_printf(p->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

static void put_value_of_label(struct buf *out, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '\n')
            buf_puts(out, "\\n");
        else if (*s == '"' || *s == '\\')
            buf_printf(out, "\\%c", *s);
        else
            buf_putc(out, *s);
    }
}

/* `le`: one label more, or NULL. */
static void put_name(struct prom *p, const char *suffix, const struct prom_label *labels,
                     const char *le)
{
    const char *before = "{";

    buf_puts(p->out, p->name);
    buf_puts(p->out, suffix);
    for (; labels != NULL && labels->name != NULL; labels++) {
        buf_printf(p->out, "%s%s=\"", before, labels->name);
        put_value_of_label(p->out, labels->value);
        buf_putc(p->out, '"');
        before = ",";
    }
    if (le != NULL) {
        buf_printf(p->out, "%sle=\"%s\"", before, le);
        before = ",";
    }
    buf_puts(p->out, *before == ',' ? "} " : " ");
}

/* Exact, without needless zeros. */
static void format_seconds(char dst[SECONDS_MAX], uint64_t ns)
{
    int len = snprintf(dst, SECONDS_MAX, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_SECOND,
                       ns % NS_PER_SECOND);

    while (dst[len - 1] == '0')
        dst[--len] = '\0';
    if (dst[len - 1] == '.')
        dst[--len] = '\0';
}

void prom_put(struct prom *p, const struct prom_label *labels, uint64_t value)
{
    put_name(p, "", labels, NULL);
    buf_printf(p->out, "%" PRIu64 "\n", value);
}

void prom_put_seconds(struct prom *p, const struct prom_label *labels, uint64_t ns)
{
    char text[SECONDS_MAX];

    format_seconds(text, ns);
    put_name(p, "", labels, NULL);
    buf_printf(p->out, "%s\n", text);
}

void prom_put_num(struct prom *p, const struct prom_label *labels, double value)
{
    put_name(p, "", labels, NULL);
    buf_printf(p->out, "%.9g\n", value);
}

void prom_put_histogram(struct prom *p, const struct prom_label *labels, const struct histogram *h)
{
    char text[SECONDS_MAX];
    uint64_t count = 0;

    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        count += h->counts[i];
        if (i < HISTOGRAM_BOUNDS)
            format_seconds(text, histogram_bounds[i]);
        put_name(p, "_bucket", labels, i < HISTOGRAM_BOUNDS ? text : "+Inf");
        buf_printf(p->out, "%" PRIu64 "\n", count);
    }
    format_seconds(text, h->sum_ns);
    put_name(p, "_sum", labels, NULL);
    buf_printf(p->out, "%s\n", text);
    put_name(p, "_count", labels, NULL);
    buf_printf(p->out, "%" PRIu64 "\n", count);
}

void prom_one(struct prom *p, const char *name, enum prom_type type, const char *help,
              uint64_t value)
{
    prom_family(p, name, type, help);
    prom_put(p, NULL, value);
}
