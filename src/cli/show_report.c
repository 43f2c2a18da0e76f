/* show_report.c - what the end of a sandbox has released, in one line. What is not known is left out. */
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
    (void) fputc('\n', out);
}
