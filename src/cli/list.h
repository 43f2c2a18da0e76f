/* list.h - boxes as the daemon lists them, for commands that look at many: fetched page by page and kept. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include "cli/cli.h"

struct list_boxes {
    struct json_doc **pages;
    size_t page_count;
    const struct json **boxes; /* in the pages */
    size_t count;
    char cursor[128]; /* "": there are no more */
};

/* `filters`: the rest of the query, "&a=b"; at most `max` boxes. An exit code; a failure is printed. */
MUST_CHECK int list_fetch(struct cli *c, const char *filters, uint64_t max, struct list_boxes *ret);
void list_fini(struct list_boxes *l);
/* By the word of an option: numbers from the largest on, texts by the alphabet. */
void list_sort(struct list_boxes *l, const char *key);
/* One line, or one object with --json, for each user, principal or profile. */
void list_group(struct cli *c, const struct list_boxes *l, const char *by);

#endif
