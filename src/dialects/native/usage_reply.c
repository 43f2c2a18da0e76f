/* usage_reply.c - metered time as JSON and as CSV: one table of columns for both. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "dialects/native/usage.h"

enum { CSV_MAX = 64 * 1024 * 1024 };

static const char *const states[STORE_METER_COUNT] = {"leased", "parked", "paused"};

/* A line of the answer, in either form. */
struct line {
    struct json_out *o; /* NULL: CSV */
    struct buf *csv;
    bool is_head;  /* only the names of the columns */
    bool has_cell; /* of this line */
};

static void put_csv(struct line *l, const char *name, const char *text)
{
    const char *cell = l->is_head ? name : text;

    if (l->has_cell)
        buf_putc(l->csv, ',');
    l->has_cell = true;
    if (strpbrk(cell, ",\"\r\n") == NULL) {
        buf_puts(l->csv, cell);
        return;
    }
    buf_putc(l->csv, '"');
    for (; *cell != '\0'; cell++) {
        if (*cell == '"')
            buf_putc(l->csv, '"');
        buf_putc(l->csv, *cell);
    }
    buf_putc(l->csv, '"');
}

/* NULL: null, or an empty cell. */
static void put_text(struct line *l, const char *name, const char *text)
{
    if (l->o != NULL)
        json_put_str(l->o, name, text);
    else
        put_csv(l, name, text != NULL ? text : "");
}

static void put_number(struct line *l, const char *name, uint64_t v)
{
    char text[24];

    (void) snprintf(text, sizeof(text), "%" PRIu64, v);
    if (l->o != NULL)
        json_put_u64(l->o, name, v);
    else
        put_csv(l, name, text);
}

static void put_hex(struct line *l, const char *name, uint64_t v)
{
    char text[17];

    str_hex64(text, v);
    put_text(l, name, text);
}

static void put_time(const struct usage_query *q, struct line *l, const char *name, uint64_t ms)
{
    int64_t wall_ms = (int64_t) ms + q->skew_ms;
    char text[32];

    str_iso8601(text, wall_ms > 0 ? (uint64_t) wall_ms : 0);
    put_text(l, name, ms == 0 ? NULL : text);
}

static void put_cost(struct line *l, const char *currency, unsigned __int128 nominal)
{
    bool has_price = !str_is_empty(currency);
    uint64_t micros = store_usage_cost(nominal);
    char text[CONFIG_MICROS_MAX];

    config_print_micros(micros, text);
    put_text(l, "currency", has_price ? currency : NULL);
    put_text(l, "cost", has_price ? text : NULL);
    if (has_price || l->is_head)
        put_number(l, "cost_micros", micros);
    else if (l->o != NULL)
        json_put_null(l->o, "cost_micros");
    else
        put_csv(l, "cost_micros", "");
}

static void put_counts(struct line *l, const struct store_counts *c)
{
    for (unsigned k = 0; k < STORE_COUNTER_COUNT; k++) {
        const struct engine_counter *counter = &engine_counters[k];

        if ((c->known & (1U << k)) != 0)
            put_number(l, counter->name, c->n[k] / counter->unit);
        else
            put_text(l, counter->name, NULL);
    }
}

static void put_sum(const struct usage_query *q, struct line *l, const struct store_sum *s)
{
    unsigned by = q->usage.by;

    if ((by & STORE_BY_USER) != 0)
        put_text(l, "user_id", s->user);
    if ((by & STORE_BY_THREAD) != 0)
        put_text(l, "thread_id", s->thread);
    if ((by & STORE_BY_SANDBOX) != 0)
        put_text(l, "sandbox_id", s->sandbox_id);
    if ((by & STORE_BY_PROFILE) != 0)
        put_text(l, "profile", s->profile);
    if ((by & STORE_BY_PRINCIPAL) != 0)
        put_hex(l, "principal", s->principal);
    put_number(l, "leased_ms", s->ms[STORE_LEASED]);
    put_number(l, "parked_ms", s->ms[STORE_PARKED]);
    put_number(l, "paused_ms", s->ms[STORE_PAUSED]);
    put_cost(l, s->currency, s->nominal);
    put_counts(l, &s->counts);
}

/* The part of it that is in the range. */
static void put_interval(const struct usage_query *q, struct line *l,
                         const struct store_interval *i)
{
    struct store_counts counts;

    store_usage_counts(i, q->usage.since_ms, q->usage.until_ms, &counts);
    put_hex(l, "box_id", i->box);
    put_text(l, "sandbox_id", i->sandbox_id);
    put_number(l, "generation", i->generation);
    put_text(l, "user_id", i->user);
    put_text(l, "thread_id", i->thread);
    put_hex(l, "principal", i->principal);
    put_text(l, "profile", i->profile);
    put_text(l, "state", states[i->state]);
    put_time(q, l, "began_at", i->began_ms);
    put_time(q, l, "ended_at", i->ended_ms);
    put_number(l, "wall_ms", store_usage_ms(i, q->usage.since_ms, q->usage.until_ms));
    put_number(l, "folded", i->folded);
    put_cost(l, i->currency, store_usage_part(i, q->usage.since_ms, q->usage.until_ms));
    put_counts(l, &counts);
}

/* "": there is no further page. */
static void next_cursor(const struct store_usage *u, char ret[40])
{
    char place[17];

    ret[0] = '\0';
    if (!u->want_rows || !u->is_cut)
        return;
    str_hex64(place, (uint64_t) u->place);
    (void) snprintf(ret, 40, "%s%s", u->is_past_open ? "closed:" : "open:", place);
}

/* --- JSON --- */

static void put_json_lines(const struct usage_query *q, struct json_out *o)
{
    const struct store_usage *u = &q->usage;
    struct line l = {.o = o};

    for (size_t i = 0; i < u->row_count; i++) {
        json_begin_obj(o, NULL);
        put_interval(q, &l, &u->rows[i]);
        json_end(o);
    }
    for (struct list_node *n = list_first(&u->sum_list); n != NULL;
         n = list_next(&u->sum_list, n)) {
        json_begin_obj(o, NULL);
        put_sum(q, &l, container_of(n, struct store_sum, link));
        json_end(o);
    }
}

static void reply_json(const struct usage_query *q)
{
    const struct store_usage *u = &q->usage;
    struct json_out o;
    struct line l = {.o = &o};
    char cursor[40];

    next_cursor(u, cursor);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    put_time(q, &l, "since", u->since_ms);
    put_time(q, &l, "until", u->until_ms == UINT64_MAX ? 0 : u->until_ms);
    json_begin_arr(&o, u->want_rows ? "intervals" : "usage");
    put_json_lines(q, &o);
    json_end(&o);
    if (u->want_rows)
        json_put_str(&o, "next_cursor", str_is_empty(cursor) ? NULL : cursor);
    json_end(&o);
    http_reply_json(q->ex, 200, &o);
}

/* --- CSV --- */

static void put_csv_lines(const struct usage_query *q, struct buf *csv)
{
    const struct store_usage *u = &q->usage;
    struct line l = {.csv = csv};

    for (size_t i = 0; i < u->row_count; i++) {
        l.has_cell = false;
        put_interval(q, &l, &u->rows[i]);
        buf_puts(csv, "\r\n");
    }
    for (struct list_node *n = list_first(&u->sum_list); n != NULL;
         n = list_next(&u->sum_list, n)) {
        l.has_cell = false;
        put_sum(q, &l, container_of(n, struct store_sum, link));
        buf_puts(csv, "\r\n");
    }
}

static void put_csv_head(const struct usage_query *q, struct buf *csv)
{
    static const struct store_interval interval = {
        .sandbox_id = "", .user = "", .thread = "", .profile = "", .currency = ""};
    static char none[] = "";
    const struct store_sum sum = {
        .sandbox_id = none, .user = none, .thread = none, .profile = none, .currency = none};
    struct line l = {.csv = csv, .is_head = true};

    if (q->usage.want_rows)
        put_interval(q, &l, &interval);
    else
        put_sum(q, &l, &sum);
    buf_puts(csv, "\r\n");
}

static void reply_csv(const struct usage_query *q)
{
    char cursor[40];
    struct buf csv;

    buf_init(&csv, CSV_MAX);
    put_csv_head(q, &csv);
    put_csv_lines(q, &csv);
    next_cursor(&q->usage, cursor);
    if (!str_is_empty(cursor))
        http_add_header(q->ex, "X-Next-Cursor", cursor);
    if (buf_failed(&csv))
        http_reply_error(q->ex, SP_INTERNAL, "the answer is too long", 0);
    else
        http_reply(q->ex, 200, "text/csv", buf_str(&csv), csv.len);
    buf_fini(&csv);
}

void api_reply_usage(struct usage_query *q)
{
    if (q->want_csv)
        reply_csv(q);
    else
        reply_json(q);
}
