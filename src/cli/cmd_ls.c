/* cmd_ls.c - sandpool ls: who has which box, since when, and what was done with it last. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/list.h"

enum { OUTPUT_MAX = 256 * 1024 * 1024, LAST_MAX = 128 };

static const char *const head[] = {"ID",  "STATE",  "PROFILE", "USER", "THREAD", "PRINCIPAL",
                                   "AGE", "LEASED", "IDLE",    "LAST", "ENDS",   "URL"};

/* A box that is paused is leased or parked all the same, and so is one whose lease lasts too long. */
static const char *show_state(const struct json *box, char dst[48])
{
    (void) snprintf(dst, 48, "%.16s%s%s", show_str(box, "state"),
                    json_bool(json_get(box, "paused")) ? " paused" : "",
                    json_bool(json_get(box, "leaking")) ? " leaking" : "");
    return dst;
}

/* "exec 3s pid 42" */
static const char *show_last(const struct json *box, char dst[LAST_MAX])
{
    const struct json *last = json_get(box, "last");
    char ago[24];

    dst[0] = '\0';
    if (last != NULL)
        (void) snprintf(dst, LAST_MAX, "%.16s %s %.64s", show_str(last, "verb"),
                        show_age(last, "ago_s", ago), show_str(last, "from"));
    return dst;
}

static void add_row(struct out_table *t, const struct json *box)
{
    char id[96];
    char text[48];
    char last[LAST_MAX];
    char end[SHOW_END_MAX];

    out_cell(t, show_id(box, id));
    out_cell(t, show_state(box, text));
    out_cell(t, show_str(box, "profile"));
    out_cell(t, show_str(box, "user_id"));
    out_cell(t, show_str(box, "thread_id"));
    out_cell(t, show_str(box, "principal_name"));
    out_cell(t, show_age(box, "age_s", text));
    out_cell(t, show_age(box, "leased_s", text));
    out_cell(t, show_age(box, "idle_s", text));
    out_cell(t, show_last(box, last));
    out_cell(t, show_end(box, end));
    out_cell(t, show_str(box, "sandbox_url"));
}

static void print_table(struct cli *c, const struct list_boxes *l)
{
    struct out_table t;

    out_table_init(&t, head, ARRAY_LEN(head));
    for (size_t i = 0; i < l->count; i++)
        add_row(&t, l->boxes[i]);
    out_table_print(&t, c->out);
    out_table_fini(&t);
}

static void print_ids(struct cli *c, const struct list_boxes *l)
{
    char id[96];

    for (size_t i = 0; i < l->count; i++) {
        out_text(c->out, show_id(l->boxes[i], id));
        (void) fputc('\n', c->out);
    }
}

/* One list, however many pages it took. */
static void print_json(struct cli *c, const struct list_boxes *l)
{
    struct json_out o;
    struct buf text;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "sandboxes");
    for (size_t i = 0; i < l->count; i++) {
        struct buf box;

        buf_init(&box, 1024 * 1024);
        json_print(l->boxes[i], &box);
        json_put_raw(&o, NULL, buf_str(&box));
        buf_fini(&box);
    }
    json_end(&o);
    json_put_str(&o, "next_cursor", str_is_empty(l->cursor) ? NULL : l->cursor);
    json_end(&o);
    buf_init(&text, OUTPUT_MAX);
    json_out_finish(&o, &text);
    (void) fprintf(c->out, "%s\n", buf_str(&text));
    buf_fini(&text);
}

/* Whole seconds, at least one: less is no filter. */
static void add_seconds(const struct cli *c, struct buf *filters, const char *option,
                        const char *name)
{
    uint64_t ms;

    if (cli_duration_ms(&c->args, option, &ms))
        buf_printf(filters, "&%s=%llu", name, (unsigned long long) MAX_OF(ms / 1000, (uint64_t) 1));
}

static void add_filters(const struct cli *c, struct buf *filters)
{
    cli_add_filter(c, filters, "state", "state");
    cli_add_filter(c, filters, "profile", "profile");
    cli_add_filter(c, filters, "user", "user_id");
    cli_add_filter(c, filters, "thread", "thread_id");
    cli_add_filter(c, filters, "principal", "principal");
    add_seconds(c, filters, "leased-for", "min_leased_s");
    add_seconds(c, filters, "idle-for", "min_idle_s");
    if (cli_flag(&c->args, "leaking"))
        buf_puts(filters, "&leaking=1");
}

int cmd_ls(struct cli *c)
{
    const char *by = cli_option(&c->args, "by");
    const char *sort = cli_option(&c->args, "sort");
    uint64_t max = UINT64_MAX;
    struct list_boxes l;
    struct buf filters;
    int code;

    if (cli_number(&c->args, "limit", &max) && max == 0)
        return cli_fail_usage(c, "--limit must be at least 1");
    buf_init(&filters, 4096);
    add_filters(c, &filters);
    code = list_fetch(c, buf_str(&filters), max, &l);
    buf_fini(&filters);
    if (code == CLI_OK && sort != NULL)
        list_sort(&l, sort);
    if (code == CLI_OK && by != NULL)
        list_group(c, &l, by);
    else if (code == CLI_OK && cli_wants_json(c))
        print_json(c, &l);
    else if (code == CLI_OK && cli_flag(&c->args, "quiet"))
        print_ids(c, &l);
    else if (code == CLI_OK)
        print_table(c, &l);
    list_fini(&l);
    return code;
}
