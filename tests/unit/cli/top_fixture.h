/* top_fixture.h - answers of a daemon for the tests of `sandpool top`. */
#ifndef TOP_FIXTURE_H
#define TOP_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/top.h"

#define POOL                                                                                       \
    "{\"instance\":\"i\",\"mode\":\"running\",\"store\":{\"state\":\"up\",\"trouble\":null},"      \
    "\"disk\":{\"free_bytes\":1073741824,\"total_bytes\":4294967296,\"trouble\":null,\"largest\":" \
    "[{\"box_id\":\"0000000000000002\",\"sandbox_id\":\"two\",\"bytes\":5368709120}]},"            \
    "\"backend_trouble\":null,\"total\":7,\"max_boxes\":10,\"waiting\":3,\"profiles\":["           \
    "{\"name\":\"small\",\"mode\":\"running\",\"target\":4,\"blank\":3,\"leased\":2,\"parked\":1," \
    "\"starting\":1,\"deleting\":0,\"waiting\":0,\"oldest_wait_ms\":0,\"breaker\":"                \
    "{\"open\":false,\"failures\":0,\"reason\":null},\"ready\":true,\"reason\":null,"              \
    "\"warm_hits\":3,\"cold_starts\":1},"                                                          \
    "{\"name\":\"big\",\"mode\":\"paused\",\"target\":0,\"blank\":0,\"leased\":0,\"parked\":0,"    \
    "\"starting\":2,\"deleting\":0,\"waiting\":3,\"oldest_wait_ms\":4500.5,\"breaker\":"           \
    "{\"open\":true,\"failures\":6,\"reason\":\"other\",\"retry_in_ms\":2000},\"ready\":false,"    \
    "\"reason\":\"no image\",\"warm_hits\":0,\"cold_starts\":0}]}"

#define BOX(id, name, state, more)                                                       \
    "{\"sandbox_id\":" name ",\"box_id\":\"" id "\",\"generation\":1,\"state\":\"" state \
    "\",\"profile\":\"small\"" more "}"

#define BOXES                                                                                                                                       \
    "{\"sandboxes\":[" BOX("0000000000000001", "\"one\"", "leased", ",\"user_id\":\"ana\",\"thread_id\":\"t1\",\"age_s\":10,\"idle_s\":3") "," BOX( \
        "0000000000000002", "\"two\"", "parked",                                                                                                    \
        ",\"user_id\":\"bob\",\"thread_id\":\"t2\",\"age_s\":500,\"parked_s\":60") "," BOX("0000000000000003",                                      \
                                                                                           "null",                                                  \
                                                                                           "blank",                                                 \
                                                                                           ",\"age_s\":90") "],\"next_cursor\":null}"

static inline struct json_doc *parse(const char *text)
{
    struct json_doc *doc = json_parse(text, strlen(text), 1 << 20, NULL);

    assert_non_null(doc);
    return doc;
}

static inline bool take_pool(struct top *t, const char *text)
{
    struct json_doc *doc = parse(text);
    bool is_good = top_take_pool(t, json_root(doc));

    (void) json_doc_free(doc);
    return is_good;
}

static inline bool take_boxes(struct top *t, const char *text)
{
    struct json_doc *doc = parse(text);
    char cursor[128];
    bool is_good;

    top_begin_boxes(t);
    is_good = top_take_boxes(t, json_root(doc), cursor);
    if (is_good)
        top_end_boxes(t);
    (void) json_doc_free(doc);
    return is_good;
}

static inline struct top_box *box_named(struct top *t, const char *name)
{
    for (size_t i = 0; i < t->box_count; i++) {
        if (strcmp(t->boxes[i].name, name) == 0)
            return &t->boxes[i];
    }
    fail_msg("there is no box %s", name);
    return NULL;
}

static inline void take_use(struct top *t, const char *name, const char *text, uint64_t now_ms)
{
    struct json_doc *doc = parse(text);

    top_take_use(box_named(t, name), json_root(doc), now_ms);
    (void) json_doc_free(doc);
}

/* The lines of a source: up to 1 ms, up to 10 ms, longer. */
#define SOURCE_LINES(name, a, b, c)                                                       \
    "sandpool_acquire_duration_seconds_bucket{source=\"" name "\",le=\"0.001\"} " #a "\n" \
    "sandpool_acquire_duration_seconds_bucket{source=\"" name "\",le=\"0.01\"} " #b "\n"  \
    "sandpool_acquire_duration_seconds_bucket{source=\"" name "\",le=\"+Inf\"} " #c "\n"  \
    "sandpool_acquire_duration_seconds_sum{source=\"" name "\"} 1.5\n"

#endif
