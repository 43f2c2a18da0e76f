/* reclaim.c - a line of boxes whose memory is given back, each once in it. */
#include "backend/reclaim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "loop/child.h"

#define LIMIT_NS (15 * NS_PER_S) /* the helper itself ends before */

enum { RUNNING_MAX = 2, WAITING_MAX = 16384 };

struct reclaim {
    struct list_node link;
    struct map_node node;
    struct reclaims *all;
    uint64_t box_id;
    struct child child;
    struct buf plan;
    const char *argv[3];
};

static bool is_box(const struct map_node *node, const void *key)
{
    return container_of(node, struct reclaim, node)->box_id == *(const uint64_t *) key;
}

static void start_next(struct reclaims *r);

static void drop(struct reclaim *m)
{
    map_remove(&m->all->by_box, &m->node);
    buf_fini(&m->plan);
    free(m);
}

static void note(const struct reclaim *m)
{
    struct json_doc *doc;
    struct err err;
    uint64_t before;
    uint64_t after;

    if (m->child.exit_code != 0) {
        (void) child_explain(&m->child, "sandpool-helper reclaim", &err);
        log_debug("box.not_reclaimed", LF_HEX("box", m->box_id), LF_STR("reason", err.msg));
        return;
    }
    doc = json_parse(buf_str(&m->child.out), m->child.out.len, CHILD_OUTPUT_MAX, &err);
    if (doc != NULL && json_u64(json_get(json_root(doc), "before"), &before) &&
        json_u64(json_get(json_root(doc), "after"), &after))
        log_info("box.reclaimed", LF_HEX("box", m->box_id), LF_U64("bytes_before", before),
                 LF_U64("bytes_after", after));
    (void) json_doc_free(doc);
}

static void on_child(struct op *op)
{
    struct reclaim *m = container_of(op, struct reclaim, child.op);
    struct reclaims *r = m->all;

    if (op->result == SP_OK)
        note(m);
    child_fini(&m->child);
    r->running--;
    drop(m);
    start_next(r);
    closing_settle(r->closing);
}

static void start_next(struct reclaims *r)
{
    while (r->running < RUNNING_MAX && !list_is_empty(&r->waiting)) {
        struct reclaim *m = container_of(list_pop_front(&r->waiting), struct reclaim, link);

        r->running++;
        m->argv[0] = r->helper;
        m->argv[1] = "reclaim";
        m->child = (struct child){
            .argv = m->argv, .input = buf_str(&m->plan), .input_len = m->plan.len, .pass_fd = -1};
        child_start(r->loop, &m->child, &r->closing->inner,
                    rt_after(rt_now(&r->loop->rt), LIMIT_NS), on_child);
    }
}

void reclaims_open(struct reclaims *r)
{
    map_init(&r->by_box, 64);
    list_init(&r->waiting);
}

void reclaims_close(struct reclaims *r)
{
    while (!list_is_empty(&r->waiting))
        drop(container_of(list_pop_front(&r->waiting), struct reclaim, link));
}

void reclaims_fini(struct reclaims *r)
{
    map_fini(&r->by_box);
}

void reclaims_add(struct reclaims *r, uint64_t box_id, struct buf *plan)
{
    struct reclaim *m;

    if (r->closing->is_closing || str_is_empty(r->helper) || r->by_box.len >= WAITING_MAX ||
        map_find(&r->by_box, hash_u64(box_id), is_box, &box_id) != NULL) {
        buf_fini(plan);
        return;
    }
    m = xcalloc(1, sizeof(*m));
    m->all = r;
    m->box_id = box_id;
    m->plan = *plan;
    map_insert(&r->by_box, &m->node, hash_u64(box_id));
    list_push_back(&r->waiting, &m->link);
    start_next(r);
}

/* --- doctor --- */

static bool has_swap(void)
{
    char text[256];

    return file_read_start(AT_FDCWD, "/proc/swaps", text, sizeof(text)) > 0 &&
           strchr(text, '/') != NULL;
}

void reclaims_report(struct backend_exam *r)
{
    const char *way = access("/sys/fs/cgroup/memory.reclaim", F_OK) == 0 ? "memory.reclaim"
                      : access("/sys/fs/cgroup/memory/memory.force_empty", F_OK) == 0
                          ? "memory.force_empty"
                          : NULL;

    if (way == NULL)
        backend_report(r, BACKEND_FINDING_WARN, "frozen boxes",
                       "keep all of their memory: this kernel has neither memory.reclaim (5.19, "
                       "control groups of version 2) nor memory.force_empty (version 1). `park: "
                       "snapshot` frees it");
    else if (has_swap())
        backend_report(
            r, BACKEND_FINDING_OK, "frozen boxes",
            "parked ones (`park: freeze`) give their memory back by %s: cached files, and "
            "the rest to swap",
            way);
    else
        backend_report(r, BACKEND_FINDING_OK, "frozen boxes",
                       "parked ones (`park: freeze`) give their cached files back by %s; what else "
                       "they hold stays in memory, because this machine has no swap",
                       way);
}
