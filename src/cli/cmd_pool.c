/* cmd_pool.c - sandpool pool: the whole pool in a screenful. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

#define GB (1024.0 * 1024 * 1024)

static const char *const head[] = {"PROFILE", "BACKEND", "TARGET",  "STARTING", "BLANK",
                                   "LEASED",  "PARKED",  "WAITING", "PER-MIN",  "MAKE",
                                   "WARM",    "COLD",    "TROUBLE"};

/* Counts are beside the profile's name, or in its by_state. */
static uint64_t count_of(const struct json *profile, const char *key)
{
    const struct json *by_state = json_get(profile, "by_state");

    return json_get(profile, key) != NULL ? show_u64(profile, key) : show_u64(by_state, key);
}

static void add_trouble(struct out_table *t, const struct json *profile)
{
    const struct json *breaker = json_get(profile, "breaker");
    char text[400];
    const char *reason = show_str(profile, "reason");

    if (!str_is_empty(reason)) { /* nobody gets a box of it, or none is made */
        out_cell(t, reason);
        return;
    }
    reason = show_str(breaker, "reason");
    if (show_u64(breaker, "failures") == 0 && !json_bool(json_get(breaker, "open"))) {
        text[0] = '\0';
        if (show_u64(profile, "leaking") > 0)
            (void) snprintf(text, sizeof(text), "%llu leases leak: 'sandpool ls --leaking'",
                            (unsigned long long) show_u64(profile, "leaking"));
        out_cell(t, text);
        return;
    }
    (void) snprintf(text, sizeof(text), "%llu failures%s%s%.300s",
                    (unsigned long long) show_u64(breaker, "failures"),
                    json_bool(json_get(breaker, "open")) ? ", refusing" : "",
                    str_is_empty(reason) ? "" : ": ", reason);
    out_cell(t, text);
}

static void add_profile(struct out_table *t, const struct json *p)
{
    char text[32];

    out_cell(t, show_str(p, "name"));
    out_cell(t, show_str(p, "backend"));
    out_cell_u64(t, show_u64(p, "target"));
    out_cell_u64(t, json_get(p, "creating") != NULL ? show_u64(p, "creating")
                                                    : count_of(p, "starting"));
    out_cell_u64(t, count_of(p, "blank"));
    out_cell_u64(t, count_of(p, "leased"));
    out_cell_u64(t, count_of(p, "parked"));
    out_cell_u64(t, show_u64(p, "waiting"));
    (void) snprintf(text, sizeof(text), "%.1f", 60 * json_num(json_get(p, "arrivals_per_s")));
    out_cell(t, text);
    (void) snprintf(text, sizeof(text), "%.0fms", json_num(json_get(p, "provision_ms")));
    out_cell(t, text);
    out_cell_u64(t, show_u64(p, "warm_hits"));
    out_cell_u64(t, show_u64(p, "cold_starts"));
    add_trouble(t, p);
}

static void print_disk(const struct json *disk, FILE *out)
{
    const struct json *largest = json_get(disk, "largest");
    char text[400];

    if (disk == NULL)
        return;
    (void) snprintf(text, sizeof(text), "%.1f of %.1f GB free%s%.200s",
                    json_num(json_get(disk, "free_bytes")) / GB,
                    json_num(json_get(disk, "total_bytes")) / GB,
                    json_get(disk, "dir") != NULL ? " in " : "", show_str(disk, "dir"));
    out_pair(out, "disk", text);
    if (!str_is_empty(show_str(disk, "trouble")))
        out_pair(out, "trouble", show_str(disk, "trouble"));
    for (size_t i = 0; i < json_len(largest); i++) {
        const struct json *box = json_at(largest, i);
        const char *id = show_str(box, "sandbox_id");

        (void) snprintf(text, sizeof(text), "%.64s takes %.1f GB",
                        str_is_empty(id) ? show_str(box, "box_id") : id,
                        json_num(json_get(box, "bytes")) / GB);
        out_pair(out, "large box", text);
    }
}

static void print_summary(const struct json *pool, FILE *out)
{
    const struct json *by_state = json_get(pool, "by_state");
    const char *trouble = show_str(pool, "backend_trouble");
    const char *key;
    const struct json *v;
    char text[64];

    out_pair(out, "mode", show_str(pool, "mode"));
    out_pair(out, "store", show_str(json_get(pool, "store"), "state"));
    if (!str_is_empty(show_str(json_get(pool, "store"), "trouble")))
        out_pair(out, "trouble", show_str(json_get(pool, "store"), "trouble"));
    print_disk(json_get(pool, "disk"), out);
    if (!str_is_empty(trouble))
        out_pair(out, "trouble", trouble);
    (void) snprintf(text, sizeof(text), "%llu of %llu",
                    (unsigned long long) show_u64(pool, "total"),
                    (unsigned long long) show_u64(pool, "max_boxes"));
    out_pair(out, "boxes", text);
    for (size_t i = 0; json_member(by_state, i, &key, &v); i++) {
        uint64_t n;

        if (!json_u64(v, &n) || n == 0)
            continue;
        (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) n);
        (void) fprintf(out, "  ");
        (void) fprintf(out, "%-12s %s\n", key, text);
    }
    (void) snprintf(text, sizeof(text), "%llu, longest %.1f s",
                    (unsigned long long) show_u64(pool, "waiting"),
                    json_num(json_get(pool, "oldest_wait_ms")) / 1000);
    out_pair(out, "waiting", text);
}

int cmd_pool(struct cli *c)
{
    struct json_doc *doc;
    struct out_table table;
    const struct json *profiles;
    int code = cli_call(c, "GET", "/v1/pool", NULL, &doc);

    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        profiles = json_get(json_root(doc), "profiles");
        print_summary(json_root(doc), c->out);
        (void) fputc('\n', c->out);
        out_table_init(&table, head, ARRAY_LEN(head));
        for (size_t i = 0; i < json_len(profiles); i++)
            add_profile(&table, json_at(profiles, i));
        out_table_print(&table, c->out);
        out_table_fini(&table);
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}
