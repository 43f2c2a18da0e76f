/* list.c - see list.h. Asks page after page, so that no answer is ever large. */
#include "cli/list.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

enum { PAGE = 500, OUTPUT_MAX = 64 * 1024 * 1024 };

static void add_page(struct list_boxes *l, struct json_doc *doc, uint64_t max)
{
    const struct json *boxes = json_get(json_root(doc), "sandboxes");
    size_t count = MIN_OF(json_len(boxes), (size_t) MIN_OF(max - l->count, (uint64_t) PAGE));

    l->pages = xrealloc(l->pages, (l->page_count + 1) * sizeof(struct json_doc *));
    l->pages[l->page_count++] = doc;
    l->boxes = xrealloc(l->boxes, (l->count + count + 1) * sizeof(const struct json *));
    for (size_t i = 0; i < count; i++)
        l->boxes[l->count++] = json_at(boxes, i);
    str_copy_cut(l->cursor, sizeof(l->cursor), show_str(json_root(doc), "next_cursor"));
}

int list_fetch(struct cli *c, const char *filters, uint64_t max, struct list_boxes *ret)
{
    int code = CLI_OK;
    size_t before;

    *ret = (struct list_boxes){.pages = NULL};
    do {
        struct json_doc *doc;
        struct buf target;

        before = ret->count;
        buf_init(&target, 8192);
        buf_printf(&target, "/v1/sandboxes?limit=%llu%s",
                   (unsigned long long) MIN_OF(max - ret->count, (uint64_t) PAGE), filters);
        if (!str_is_empty(ret->cursor)) {
            buf_puts(&target, "&cursor=");
            cli_escape(&target, ret->cursor);
        }
        code = cli_fetch(c, "GET", buf_str(&target), &doc);
        buf_fini(&target);
        if (code == CLI_OK)
            add_page(ret, doc, max);
        /* A page that a filter has emptied is not the last. */
    } while (code == CLI_OK && !str_is_empty(ret->cursor) && ret->count < max &&
             (ret->count > before || !str_is_empty(filters)));
    return code;
}

void list_fini(struct list_boxes *l)
{
    for (size_t i = 0; i < l->page_count; i++)
        (void) json_doc_free(l->pages[i]); /* returns NULL by convention */
    free(l->pages);
    free(l->boxes);
    *l = (struct list_boxes){.pages = NULL};
}

/* --- in order --- */

struct sort_key {
    const char *word;
    const char *member;
    bool is_number;
};

static const struct sort_key sort_keys[] = {
    {"age", "age_s", true},
    {"leased", "leased_s", true},
    {"idle", "idle_s", true},
    {"user", "user_id", false},
    {"principal", "principal_name", false},
    {"profile", "profile", false},
    {"state", "state", false},
};

/* qsort() has no argument of its own for this. */
static const struct sort_key *sorting;

static int compare(const void *a, const void *b)
{
    const struct json *x = *(const struct json *const *) a;
    const struct json *y = *(const struct json *const *) b;
    double dx;
    double dy;

    if (!sorting->is_number)
        return strcmp(show_str(x, sorting->member), show_str(y, sorting->member));
    dx = json_get(x, sorting->member) != NULL ? json_num(json_get(x, sorting->member)) : -1;
    dy = json_get(y, sorting->member) != NULL ? json_num(json_get(y, sorting->member)) : -1;
    return dx < dy ? 1 : dx > dy ? -1 : 0;
}

void list_sort(struct list_boxes *l, const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(sort_keys); i++)
        if (strcmp(sort_keys[i].word, key) == 0)
            sorting = &sort_keys[i];
    if (sorting != NULL && l->count > 0)
        qsort(l->boxes, l->count, sizeof(const struct json *), compare);
}

/* --- by who has them --- */

struct group {
    const char *key;
    uint64_t boxes;
    uint64_t leased;
    uint64_t parked;
    uint64_t leaking;
    double oldest_s;
    double idle_s;
};

static const char *key_of(const struct json *box, const char *by)
{
    return show_str(box, strcmp(by, "user") == 0        ? "user_id"
                         : strcmp(by, "principal") == 0 ? "principal_name"
                                                        : "profile");
}

static void count_box(struct group *g, const struct json *box)
{
    const char *state = show_str(box, "state");
    const struct json *leased = json_get(box, "leased_s");
    const struct json *idle = json_get(box, "idle_s");

    g->boxes++;
    g->leased += strcmp(state, "leased") == 0 ? 1 : 0;
    g->parked += strcmp(state, "parked") == 0 ? 1 : 0;
    g->leaking += json_get(box, "leaking") != NULL ? 1 : 0;
    if (leased != NULL)
        g->oldest_s = MAX_OF(g->oldest_s, json_num(leased));
    if (idle != NULL)
        g->idle_s = MAX_OF(g->idle_s, json_num(idle));
}

static int compare_keys(const void *a, const void *b)
{
    const struct json *x = *(const struct json *const *) a;
    const struct json *y = *(const struct json *const *) b;

    return strcmp(key_of(x, sorting->word), key_of(y, sorting->word));
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a;
    const struct group *y = b;

    if (x->boxes != y->boxes)
        return x->boxes < y->boxes ? 1 : -1;
    return strcmp(x->key, y->key);
}

static size_t make_groups(const struct list_boxes *l, const char *by, struct group *ret)
{
    const struct sort_key order = {.word = by};
    size_t count = 0;

    sorting = &order;
    if (l->count > 0)
        qsort(l->boxes, l->count, sizeof(const struct json *), compare_keys);
    for (size_t i = 0; i < l->count; i++) {
        const char *key = key_of(l->boxes[i], by);

        if (count == 0 || strcmp(ret[count - 1].key, key) != 0)
            ret[count++] = (struct group){.key = key};
        count_box(&ret[count - 1], l->boxes[i]);
    }
    sorting = NULL;
    if (count > 0)
        qsort(ret, count, sizeof(*ret), compare_groups);
    return count;
}

static void print_groups(struct cli *c, const struct group *groups, size_t count, const char *by)
{
    const char *head[] = {by, "BOXES", "LEASED", "PARKED", "LEAKING", "OLDEST", "IDLE"};
    struct out_table t;
    char name[16];
    char text[24];

    str_copy_cut(name, sizeof(name), by);
    for (char *p = name; *p != '\0'; p++)
        *p = (char) (*p - 'a' + 'A'); /* our own words */
    head[0] = name;
    out_table_init(&t, head, ARRAY_LEN(head));
    for (size_t i = 0; i < count; i++) {
        const struct group *g = &groups[i];

        out_cell(&t, g->key);
        out_cell_u64(&t, g->boxes);
        out_cell_u64(&t, g->leased);
        out_cell_u64(&t, g->parked);
        out_cell_u64(&t, g->leaking);
        text[0] = '\0';
        if (g->leased > 0)
            duration_print(g->oldest_s, text);
        out_cell(&t, text);
        if (g->leased > 0)
            duration_print(g->idle_s, text);
        out_cell(&t, text);
    }
    out_table_print(&t, c->out);
    out_table_fini(&t);
}

static void print_json(struct cli *c, const struct group *groups, size_t count, const char *by)
{
    struct json_out o;
    struct buf text;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "groups");
    for (size_t i = 0; i < count; i++) {
        json_begin_obj(&o, NULL);
        json_put_str(&o, by, str_is_empty(groups[i].key) ? NULL : groups[i].key);
        json_put_u64(&o, "boxes", groups[i].boxes);
        json_put_u64(&o, "leased", groups[i].leased);
        json_put_u64(&o, "parked", groups[i].parked);
        json_put_u64(&o, "leaking", groups[i].leaking);
        json_put_num(&o, "oldest_s", groups[i].oldest_s);
        json_put_num(&o, "idle_s", groups[i].idle_s);
        json_end(&o);
    }
    json_end(&o);
    json_end(&o);
    buf_init(&text, OUTPUT_MAX);
    json_out_finish(&o, &text);
    (void) fprintf(c->out, "%s\n", buf_str(&text));
    buf_fini(&text);
}

void list_group(struct cli *c, const struct list_boxes *l, const char *by)
{
    struct group *groups = xcalloc(l->count + 1, sizeof(*groups));
    size_t count = make_groups(l, by, groups);

    if (cli_wants_json(c))
        print_json(c, groups, count, by);
    else
        print_groups(c, groups, count, by);
    free(groups);
}
