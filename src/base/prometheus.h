/* prometheus.h - writes the text format that Prometheus reads (version 0.0.4). A family is begun once, its samples follow. */
#ifndef BASE_PROMETHEUS_H
#define BASE_PROMETHEUS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/histogram.h"

struct prom_label {
    const char *name;
    const char *value; /* any text */
};

enum prom_type { PROM_COUNTER, PROM_GAUGE, PROM_HISTOGRAM };

struct prom {
    struct buf *out;
    const char *name; /* of the family that is open */
};

/* `name` is kept, and has its unit; that of a counter ends with _total. */
void prom_family(struct prom *p, const char *name, enum prom_type type, const char *help);
/* One sample of it; `labels` ends with a name that is NULL, or is NULL. */
void prom_put(struct prom *p, const struct prom_label *labels, uint64_t value);
void prom_put_seconds(struct prom *p, const struct prom_label *labels, uint64_t ns);
void prom_put_num(struct prom *p, const struct prom_label *labels, double value);
void prom_put_histogram(struct prom *p, const struct prom_label *labels, const struct histogram *h);
/* A family without labels and its sample. */
void prom_one(struct prom *p, const char *name, enum prom_type type, const char *help,
              uint64_t value);

#endif
