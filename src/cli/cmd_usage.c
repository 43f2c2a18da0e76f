/* cmd_usage.c - sandpool usage: metered time and what it cost. */
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "cli/cli.h"

static const char *const interval_head[] = {"SANDBOX", "USER",  "THREAD", "PROFILE",
                                            "STATE",   "BEGAN", "TIME",   "CPU",
                                            "MEMORY",  "NET",   "DISK",   "COST"};

static uint64_t ago(uint64_t ms)
{
    uint64_t now_ms = (uint64_t) time(NULL) * 1000;

    return ms < now_ms ? now_ms - ms : 1;
}

static void put_target(struct cli *c, struct buf *target)
{
    uint64_t ms;

    buf_puts(target, cli_flag(&c->args, "intervals") ? "/v1/usage?intervals=1&limit=1000"
                                                     : "/v1/usage?intervals=0");
    if (cli_duration_ms(&c->args, "since", &ms))
        buf_printf(target, "&since_ms=%llu", (unsigned long long) ago(ms));
    if (cli_duration_ms(&c->args, "until", &ms))
        buf_printf(target, "&until_ms=%llu", (unsigned long long) ago(ms));
    cli_add_filter(c, target, "by", "group_by");
    cli_add_filter(c, target, "user", "user_id");
    cli_add_filter(c, target, "thread", "thread_id");
    cli_add_sandbox(c, target, "sandbox_id");
    cli_add_filter(c, target, "profile", "profile");
    cli_add_filter(c, target, "principal", "principal");
    cli_add_filter(c, target, "cursor", "cursor");
}

/* "1h 2m" is too coarse for a bill: seconds with their thousandths. */
static void cell_ms(struct out_table *t, const struct json *row, const char *key)
{
    uint64_t ms = show_u64(row, key);
    char text[40];

    (void) snprintf(text, sizeof(text), "%llu.%03llus", (unsigned long long) (ms / 1000),
                    (unsigned long long) (ms % 1000));
    out_cell(t, text);
}

static void cell_cpu(struct out_table *t, const struct json *row)
{
    if (json_is_num(json_get(row, "cpu_ms")))
        cell_ms(t, row, "cpu_ms");
    else
        out_cell(t, "");
}

/* Nothing where nobody has counted. */
static void cell_memory(struct out_table *t, const struct json *row)
{
    uint64_t mb_s = show_u64(row, "memory_mb_s");
    char text[40] = "";

    if (json_is_num(json_get(row, "memory_mb_s")))
        (void) snprintf(text, sizeof(text), "%.3fGBh", (double) mb_s / 1024 / 3600);
    out_cell(t, text);
}

static void cell_bytes(struct out_table *t, const struct json *row, const char *one,
                       const char *other)
{
    double mb = (double) show_u64(row, one) / 1e6 + (double) show_u64(row, other) / 1e6;
    char text[40] = "";

    if (json_is_num(json_get(row, one)) || json_is_num(json_get(row, other)))
        (void) snprintf(text, sizeof(text), "%.1fMB", mb);
    out_cell(t, text);
}

static void cells_used(struct out_table *t, const struct json *row)
{
    cell_cpu(t, row);
    cell_memory(t, row);
    cell_bytes(t, row, "net_in_bytes", "net_out_bytes");
    cell_bytes(t, row, "disk_read_bytes", "disk_write_bytes");
}

static void cell_cost(struct out_table *t, const struct json *row)
{
    char text[64];

    (void) snprintf(text, sizeof(text), "%.40s %.16s", show_str(row, "cost"),
                    show_str(row, "currency"));
    out_cell(t, str_is_empty(show_str(row, "currency")) ? "" : text);
}

static void print_intervals(const struct json *answer, FILE *out)
{
    const struct json *rows = json_get(answer, "intervals");
    struct json_walk walk = {0};
    const struct json *row;
    struct out_table table;

    out_table_init(&table, interval_head, ARRAY_LEN(interval_head));
    while ((row = json_next(rows, &walk)) != NULL) {
        out_cell(&table, show_str(row, "sandbox_id"));
        out_cell(&table, show_str(row, "user_id"));
        out_cell(&table, show_str(row, "thread_id"));
        out_cell(&table, show_str(row, "profile"));
        out_cell(&table, show_str(row, "state"));
        out_cell(&table, show_str(row, "began_at"));
        cell_ms(&table, row, "wall_ms");
        cells_used(&table, row);
        cell_cost(&table, row);
    }
    out_table_print(&table, out);
    out_table_fini(&table);
    if (!str_is_empty(show_str(answer, "next_cursor")))
        (void) fprintf(out, "\nmore: --cursor %s\n", show_str(answer, "next_cursor"));
}

static void print_sums(const struct json *answer, FILE *out)
{
    static const char *const names[] = {"user_id", "thread_id", "sandbox_id", "profile",
                                        "principal"};
    static const char *const titles[] = {"USER", "THREAD", "SANDBOX", "PROFILE", "PRINCIPAL"};
    const struct json *rows = json_get(answer, "usage");
    const struct json *first = json_at(rows, 0);
    struct json_walk walk = {0};
    const struct json *row;
    const char *head[ARRAY_LEN(names) + 8];
    unsigned columns = 0;
    struct out_table table;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (json_get(first, names[i]) != NULL)
            head[columns++] = titles[i];
    head[columns++] = "LEASED";
    head[columns++] = "PARKED";
    head[columns++] = "PAUSED";
    head[columns++] = "CPU";
    head[columns++] = "MEMORY";
    head[columns++] = "NET";
    head[columns++] = "DISK";
    head[columns++] = "COST";
    out_table_init(&table, head, columns);
    while ((row = json_next(rows, &walk)) != NULL) {
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            if (json_get(first, names[i]) != NULL)
                out_cell(&table, show_str(row, names[i]));
        cell_ms(&table, row, "leased_ms");
        cell_ms(&table, row, "parked_ms");
        cell_ms(&table, row, "paused_ms");
        cells_used(&table, row);
        cell_cost(&table, row);
    }
    out_table_print(&table, out);
    out_table_fini(&table);
}

static bool on_csv(void *ctx, const char *data, size_t len)
{
    struct cli *c = ctx;

    return fwrite(data, 1, len, c->out) == len;
}

static int print_csv(struct cli *c, struct buf *target)
{
    struct sp_failure failure = {.code = SP_OK};

    buf_puts(target, "&format=csv");
    return sp_stream(c->client, buf_str(target), NULL, on_csv, c, &failure) == SP_OK
               ? CLI_OK
               : cli_fail(c, &failure);
}

int cmd_usage(struct cli *c)
{
    struct json_doc *doc = NULL;
    struct buf target;
    int code;

    buf_init(&target, 8192);
    put_target(c, &target);
    code = cli_flag(&c->args, "csv") ? print_csv(c, &target)
                                     : cli_call(c, "GET", buf_str(&target), NULL, &doc);
    buf_fini(&target);
    if (code == CLI_OK && doc != NULL && !cli_wants_json(c)) {
        if (cli_flag(&c->args, "intervals"))
            print_intervals(json_root(doc), c->out);
        else
            print_sums(json_root(doc), c->out);
    }
    (void) json_doc_free(doc);
    return code;
}
