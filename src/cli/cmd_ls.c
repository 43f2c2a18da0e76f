/* cmd_ls.c - sandpool ls: asks page after page, so that no answer is ever large. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

enum { PAGE = 500, OUTPUT_MAX = 256 * 1024 * 1024 };

static const char *const head[] = {"ID",  "STATE", "PROFILE", "USER", "THREAD",
                                   "AGE", "IDLE",  "ENDS",    "URL"};

struct listing {
    struct cli *c;
    struct out_table table;
    struct json_out merged; /* --json: one list, however many pages it took */
    uint64_t left;
    char cursor[128];
};

/* A box that is paused is leased or parked all the same. */
static const char *show_state(const struct json *box)
{
    const char *state = show_str(box, "state");
    const struct json *paused = json_get(box, "paused");

    if (paused == NULL || !json_bool(paused))
        return state;
    return strcmp(state, "leased") == 0 ? "leased paused" : "parked paused";
}

static void add_row(struct listing *l, const struct json *box)
{
    char id[96];
    char age[24];
    char end[SHOW_END_MAX];

    if (cli_wants_json(l->c)) {
        struct buf text;

        buf_init(&text, 1024 * 1024);
        json_print(box, &text);
        json_put_raw(&l->merged, NULL, buf_str(&text));
        buf_fini(&text);
        return;
    }
    if (cli_flag(&l->c->args, "quiet")) {
        out_text(l->c->out, show_id(box, id));
        (void) fputc('\n', l->c->out);
        return;
    }
    out_cell(&l->table, show_id(box, id));
    out_cell(&l->table, show_state(box));
    out_cell(&l->table, show_str(box, "profile"));
    out_cell(&l->table, show_str(box, "user_id"));
    out_cell(&l->table, show_str(box, "thread_id"));
    out_cell(&l->table, show_age(box, "age_s", age));
    out_cell(&l->table, show_age(box, "idle_s", age));
    out_cell(&l->table, show_end(box, end));
    out_cell(&l->table, show_str(box, "sandbox_url"));
}

/* False in *ret_more when this was the last page. */
static int fetch_page(struct listing *l, bool *ret_more)
{
    struct json_doc *doc;
    struct buf target;
    const struct json *boxes;
    int code;

    buf_init(&target, 8192);
    buf_printf(&target, "/v1/sandboxes?limit=%llu",
               (unsigned long long) MIN_OF(l->left, (uint64_t) PAGE));
    cli_add_filter(l->c, &target, "state", "state");
    cli_add_filter(l->c, &target, "profile", "profile");
    cli_add_filter(l->c, &target, "user", "user_id");
    cli_add_filter(l->c, &target, "thread", "thread_id");
    if (!str_is_empty(l->cursor)) {
        buf_puts(&target, "&cursor=");
        cli_escape(&target, l->cursor);
    }
    code = cli_fetch(l->c, "GET", buf_str(&target), &doc);
    buf_fini(&target);
    if (code != CLI_OK)
        return code;
    boxes = json_get(json_root(doc), "sandboxes");
    for (size_t i = 0; i < json_len(boxes) && l->left > 0; i++) {
        add_row(l, json_at(boxes, i));
        l->left--;
    }
    str_copy_cut(l->cursor, sizeof(l->cursor), show_str(json_root(doc), "next_cursor"));
    *ret_more = !str_is_empty(l->cursor) && json_len(boxes) > 0 && l->left > 0;
    (void) json_doc_free(doc);
    return CLI_OK;
}

static void print_merged(struct listing *l, bool want_print)
{
    struct buf text;

    json_end(&l->merged);
    json_put_str(&l->merged, "next_cursor", str_is_empty(l->cursor) ? NULL : l->cursor);
    json_end(&l->merged);
    buf_init(&text, OUTPUT_MAX);
    json_out_finish(&l->merged, &text);
    if (want_print)
        (void) fprintf(l->c->out, "%s\n", buf_str(&text));
    buf_fini(&text);
}

int cmd_ls(struct cli *c)
{
    struct listing l = {.c = c, .left = UINT64_MAX};
    bool has_more = true;
    int code = CLI_OK;

    if (cli_number(&c->args, "limit", &l.left) && l.left == 0)
        return cli_fail_usage(c, "--limit must be at least 1");
    out_table_init(&l.table, head, ARRAY_LEN(head));
    if (cli_wants_json(c)) {
        json_out_init(&l.merged);
        json_begin_obj(&l.merged, NULL);
        json_begin_arr(&l.merged, "sandboxes");
    }
    while (code == CLI_OK && has_more)
        code = fetch_page(&l, &has_more);
    if (cli_wants_json(c))
        print_merged(&l, code == CLI_OK);
    else if (code == CLI_OK && !cli_flag(&c->args, "quiet"))
        out_table_print(&l.table, c->out);
    out_table_fini(&l.table);
    return code;
}
