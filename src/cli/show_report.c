/* show_report.c - what the end of a sandbox has released and what it has used, in one line. What is not known is left out. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

#define MB 1e6

struct line {
    FILE *out;
    const char *separator;
};

static void separate(struct line *l)
{
    (void) fputs(l->separator, l->out);
    l->separator = ", ";
}

static void put_count(struct line *l, const struct json *report, const char *key, const char *one,
                      const char *many)
{
    uint64_t n;

    if (!json_u64(json_get(report, key), &n))
        return;
    separate(l);
    (void) fprintf(l->out, "%llu %s", (unsigned long long) n, n == 1 ? one : many);
}

static void put_bytes(struct line *l, const struct json *report)
{
    uint64_t n;

    if (!json_u64(json_get(report, "bytes"), &n))
        return;
    separate(l);
    if ((double) n < MB / 10)
        (void) fprintf(l->out, "%.1f KB", (double) n / 1e3);
    else
        (void) fprintf(l->out, "%.1f MB", (double) n / MB);
}

static void put_used(struct line *l, const struct json *report)
{
    static const char *const states[] = {"leased", "parked", "paused"};
    const struct json *usage = json_get(report, "usage");
    const char *cost = show_str(report, "cost");

    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        char key[16];
        char text[24];
        uint64_t ms;

        (void) snprintf(key, sizeof(key), "%s_ms", states[i]);
        if (!json_u64(json_get(usage, key), &ms) || ms == 0)
            continue;
        duration_print((double) ms / 1000, text);
        separate(l);
        (void) fprintf(l->out, "%s %s", states[i], text);
    }
    if (show_u64(usage, "cpu_ms") > 0) {
        separate(l);
        (void) fprintf(l->out, "%.1fs of processor time",
                       (double) show_u64(usage, "cpu_ms") / 1000);
    }
    if (str_is_empty(cost))
        return;
    separate(l);
    (void) fputs("cost ", l->out);
    out_text(l->out, cost);
    (void) fputc(' ', l->out);
    out_text(l->out, show_str(report, "currency"));
}

void show_ended(const struct json *answer, const char *name, FILE *out)
{
    const struct json *report = json_get(answer, "report");
    struct line l = {.out = out, .separator = ": "};
    char lived[24];

    if (report == NULL || strcmp(show_str(answer, "state"), "gone") != 0) {
        const char *text = show_str(report, "text");

        out_text(out, name);
        (void) fprintf(out, " is %s%s", show_str(answer, "state"), str_is_empty(text) ? "" : ": ");
        out_text(out, text);
        (void) fputc('\n', out);
        return;
    }
    (void) fputs("destroyed ", out);
    out_text(out, name);
    put_count(&l, report, "processes", "process", "processes");
    put_count(&l, report, "mounts", "mount", "mounts");
    put_bytes(&l, report);
    if (!str_is_empty(show_age(report, "lived_s", lived))) {
        separate(&l);
        (void) fprintf(out, "lived %s", lived);
    }
    put_used(&l, report);
    (void) fputc('\n', out);
}
