/* top.h - what the files of `sandpool top` share. The model is what is known of the pool, the view what a person has
 * chosen to look at; a grid is the picture of both. None of them knows a terminal: only top_screen.c does. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cli/cli.h"

enum {
    TOP_NAME_MAX = 132,
    TOP_REASON_MAX = 256,
    TOP_PROFILES_MAX = 256,
    TOP_BOXES_MAX = 5000,
    TOP_SOURCES_MAX = 8,
    TOP_BUCKETS_MAX = 40,
    TOP_SAMPLES = 13, /* one each TOP_SAMPLE_MS: a minute */
    TOP_SAMPLE_MS = 5000,
    TOP_METRICS_MAX = 8 * 1024 * 1024,
};

/* --- the model --- */

struct top_profile {
    char name[TOP_NAME_MAX];
    char mode[16]; /* "": this daemon's profiles have none */
    uint64_t target;
    uint64_t blank;
    uint64_t leased;
    uint64_t parked;
    uint64_t starting;
    uint64_t deleting;
    uint64_t waiting;
    double oldest_wait_ms;
    uint64_t failures; /* to make a box, one after another */
    bool is_open;      /* the breaker: callers are refused */
    bool is_ready;
    double retry_ms;
    uint64_t leaking;
    uint64_t warm_hits;
    uint64_t cold_starts;
    char reason[TOP_REASON_MAX];
};

struct top_count {
    bool is_known;
    uint64_t n;
};

/* What a box uses. Asked for one box at a time. */
struct top_use {
    uint64_t asked_ms; /* 0: never */
    struct top_count cpu_ms;
    struct top_count memory;
    struct top_count io; /* bytes read and written */
    double cpu_percent;  /* of one processor, between the last two answers; below 0: not known */
    double io_per_s;
};

struct top_box {
    char key[TOP_NAME_MAX];  /* stays the same while the box exists */
    char name[TOP_NAME_MAX]; /* as commands take it */
    char state[32];
    char profile[TOP_NAME_MAX];
    char user[TOP_NAME_MAX];
    char thread[TOP_NAME_MAX];
    uint64_t generation;
    double age_s; /* these two: below 0 is not known */
    double idle_s;
    struct top_count disk;
    struct top_use use;
    bool has_owner;
    bool is_leaking;
    bool can_be_asked; /* it runs, or may */
    bool matches;      /* the filter */
};

/* A histogram: counts of each bucket, the last without a bound. */
struct top_source {
    char name[24];
    unsigned buckets;
    double bounds[TOP_BUCKETS_MAX]; /* seconds */
    uint64_t counts[TOP_BUCKETS_MAX + 1];
};

struct top_sample {
    uint64_t at_ms;
    unsigned count;
    struct top_source sources[TOP_SOURCES_MAX];
};

struct top {
    char instance[TOP_NAME_MAX];
    char mode[16];
    char store[16];
    char trouble[TOP_REASON_MAX]; /* of a backend, the store or the disk */
    char away[TOP_REASON_MAX];    /* why the daemon did not answer; "": it did */
    uint64_t total;
    uint64_t max_boxes;
    uint64_t waiting;
    double oldest_wait_ms;
    struct top_count disk_free;
    struct top_count disk_total;
    struct top_profile profiles[TOP_PROFILES_MAX];
    unsigned profile_count;
    struct {
        char key[TOP_NAME_MAX];
        uint64_t bytes;
    } largest[32]; /* boxes whose files were counted */
    unsigned largest_count;
    struct top_box *boxes;
    size_t box_count;
    bool has_more; /* boxes than are shown */
    struct top_box *coming;
    size_t coming_count;
    struct top_sample acquires; /* since the daemon's start; at_ms 0: not known */
    struct top_sample before[TOP_SAMPLES];
    unsigned before_count; /* the oldest is the first */
};

void top_init(struct top *t);
void top_fini(struct top *t);

/* --- top_model.c: takes answers. What is missing in them is unknown; what is malformed is refused --- */

MUST_CHECK bool top_take_pool(struct top *t, const struct json *pool);
/* A page after top_begin_boxes(); `cursor` has room for 128, "" when this was the last. top_end_boxes() shows them:
 * what was known of the use of those that are still there is kept. */
void top_begin_boxes(struct top *t);
MUST_CHECK bool top_take_boxes(struct top *t, const struct json *page, char *cursor);
void top_end_boxes(struct top *t);
/* The answer about one box at `now_ms`; NULL: there was none. */
void top_take_use(struct top_box *b, const struct json *box, uint64_t now_ms);
void top_set_away(struct top *t, const char *why);
void top_put_json(const struct top *t, struct json_out *o);

/* --- top_metrics.c: acquires by source --- */

/* False and nothing is changed: it is not what a daemon says. */
MUST_CHECK bool top_take_metrics(struct top *t, const char *text, uint64_t now_ms);
/* Since the daemon's start, or in the last minute. */
struct top_acquires {
    uint64_t count;
    double p50_s; /* below 0: not known; INFINITY: above the last bound */
    double p99_s;
};
void top_acquires_of(const struct top *t, unsigned source, bool is_recent,
                     struct top_acquires *ret);
/* The part of those who needed a new box that got a warm one, from 0 to 1; below 0: nobody did. */
double top_hit_rate(const struct top *t, bool is_recent);
/* In the last minute; below 0: not known yet. */
double top_acquires_per_s(const struct top *t);

/* --- top_view.c: what is looked at, and keys --- */

enum top_sort {
    TOP_BY_AGE,
    TOP_BY_CPU,
    TOP_BY_MEMORY,
    TOP_BY_DISK,
    TOP_BY_IDLE,
    TOP_BY_STATE,
    TOP_BY_PROFILE,
    TOP_BY_OWNER,
    TOP_BY_ID,
    TOP_SORT_COUNT
};

enum top_pane { TOP_BOXES, TOP_PROFILES };
enum top_mode { TOP_LIST, TOP_DETAILS, TOP_HELP, TOP_FILTER, TOP_CONFIRM };
enum top_action {
    TOP_NOTHING,
    TOP_QUIT,
    TOP_INSPECT,
    TOP_SHELL,
    TOP_DESTROY,
    TOP_PAUSE,
    TOP_RESUME,
    TOP_REFRESH
};

/* Keys that are no characters. */
enum top_key {
    TOP_KEY_UP = 0x110000,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_BACKSPACE,
    TOP_KEY_ENTER,
    TOP_KEY_ESCAPE,
    TOP_KEY_TAB,
};

struct top_view {
    enum top_pane pane;
    enum top_mode mode;
    enum top_sort sort;
    bool is_reversed;
    char filter[64];
    char filter_before[64];
    size_t *order; /* of the boxes that match, as they are shown */
    size_t count;
    size_t selected; /* in `order` */
    size_t first;    /* shown */
    char key[TOP_NAME_MAX];
    unsigned profile;
    unsigned first_profile;
    char profile_name[TOP_NAME_MAX];
    /* what was asked about; the lists may change meanwhile */
    enum top_action asked;
    char target[TOP_NAME_MAX];
    char target_key[TOP_NAME_MAX];
    uint64_t target_generation;
    struct buf details; /* lines */
    size_t first_line;
    unsigned page; /* rows of the list, as it was drawn last */
    char message[TOP_REASON_MAX];
};

void top_view_init(struct top_view *v);
void top_view_fini(struct top_view *v);
/* After the model has changed: filters and sorts; the selection stays where it was. */
void top_view_update(struct top_view *v, struct top *t);
/* What is to be done for this key; it is about `target`. */
enum top_action top_view_key(struct top_view *v, struct top *t, unsigned key);
const char *top_sort_name(enum top_sort sort);
/* The box to ask next: of those shown the one that was asked longest ago, before `until_ms`. NULL: none. */
struct top_box *top_view_next(const struct top_view *v, struct top *t, unsigned rows,
                              uint64_t until_ms);

/* --- top_grid.c: cells --- */

enum top_attr {
    TOP_PLAIN,
    TOP_STRONG,
    TOP_FAINT,
    TOP_HEAD,
    TOP_GOOD,
    TOP_WARN,
    TOP_BAD,
    TOP_CHOSEN,
    TOP_ATTR_COUNT
};

struct top_cell {
    uint32_t c; /* 0: the second half of a wide character */
    uint8_t attr;
};

struct top_grid {
    unsigned cols, rows;
    struct top_cell *cells;
};

void top_grid_init(struct top_grid *g, unsigned cols, unsigned rows);
void top_grid_fini(struct top_grid *g);
/* At most `width` columns of the text; what a terminal would obey, or what is no character, is a '?'. Returns the columns
 * it took. */
unsigned top_grid_put(struct top_grid *g, unsigned row, unsigned col, unsigned width,
                      enum top_attr attr, const char *text);
/* The columns that a text takes. */
unsigned top_grid_width(const char *text);
void top_grid_fill(struct top_grid *g, unsigned row, enum top_attr attr);
/* As lines of UTF-8. */
void top_grid_print(const struct top_grid *g, FILE *out);

/* --- top_table.c: rows in columns that fit --- */

struct top_column {
    const char *title;
    unsigned min, max; /* columns of the screen */
    unsigned rank;     /* who stays when there is little room: 0 first */
    bool is_right;
};

enum { TOP_COLUMNS_MAX = 12, TOP_CELL_MAX = 320 };

struct top_table {
    const struct top_column *columns;
    unsigned count;
    unsigned widths[TOP_COLUMNS_MAX]; /* 0: not shown */
};

void top_table_fit(struct top_table *t, const struct top_column *columns, unsigned count,
                   unsigned width);
void top_table_head(const struct top_table *t, struct top_grid *g, unsigned row, int marked,
                    enum top_attr attr);
void top_table_cell(const struct top_table *t, struct top_grid *g, unsigned row, unsigned column,
                    enum top_attr attr, const char *text);

/* --- top_draw.c: the picture --- */

enum { TOP_COLS_MIN = 20, TOP_ROWS_MIN = 5, TOP_COLS_MAX = 1000, TOP_ROWS_MAX = 500 };

/* Fills the whole grid. */
void top_draw(const struct top *t, struct top_view *v, struct top_grid *g);
/* As many rows as all takes, without the line for keys. */
void top_draw_all(const struct top *t, struct top_view *v, unsigned cols, struct top_grid *ret);
/* top_text.c: parts of it. dst has room for 24. */
void top_print_bytes(struct top_count n, char *dst);
void top_print_seconds(double s, char *dst);
void top_print_percent(double part, char *dst);
void top_draw_summary(const struct top *t, struct top_grid *g, unsigned row, bool has_room);
void top_draw_help(struct top_grid *g);

/* --- top_ask.c: asks the daemon --- */

struct top_asker {
    struct cli *cli;
    int interrupt_fd; /* a key is more urgent than numbers of boxes; -1: none */
    uint64_t boxes_due_ms;
};

/* The pool, its metrics, boxes. A failure is in the model. False: it did not answer. */
bool top_ask_all(struct top_asker *a, struct top *t);
/* What boxes on the screen use; stops when it has taken long. */
void top_ask_use(struct top_asker *a, struct top *t, const struct top_view *v, unsigned rows);
void top_ask_details(struct top_asker *a, struct top_view *v);
/* Destroys, pauses, resumes; the view's message says how it went. */
void top_ask_action(struct top_asker *a, struct top_view *v, enum top_action action);

/* --- top_screen.c: the terminal --- */

/* False, with the reason: it cannot be used. */
MUST_CHECK bool top_screen_open(struct err *err);
void top_screen_close(void);
/* Leaves it for another program, and comes back. */
void top_screen_leave(void);
void top_screen_return(void);
/* As large as the terminal is now. */
void top_screen_size(unsigned *ret_cols, unsigned *ret_rows);
void top_screen_show(const struct top_grid *g);
/* The next key, 0: none. False: the terminal has gone. */
MUST_CHECK bool top_screen_key(unsigned *ret);

#endif
