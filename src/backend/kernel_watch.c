/* kernel_watch.c - when to count what boxes hold, and who is ended for it. */
#include "backend/kernel_watch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "loop/work.h"

#define LOOK_NS (1 * NS_PER_S)
/* What grows while something else shrinks is not seen: so it is counted without a reason, too, for a thousandth of one
 * processor's time. */
#define COUNT_MIN_NS (5 * NS_PER_S)
#define COUNT_MAX_NS (60 * NS_PER_S)
#define COUNT_SHARE 1000
#define OVER_MAX 64 /* boxes that one count ends; the next comes a second later */
#define TEXT_MAX 4096
#define HURRY \
    (-10) /* of the thread, for a count: the machine may be busy, also with what is looked for */

struct over {
    uint64_t box_id;
    struct hoard held;
};

struct kernel_watch_look {
    struct work work;
    struct kernel_watch *watch;
    uint64_t max_bytes;
    uint64_t boxes;
    bool is_blind;
    unsigned over_count;
    struct over over[OVER_MAX];
};

static void on_timer(struct rt_timer *timer);

static void arm(struct kernel_watch *w, uint64_t wait_ns)
{
    rt_timer_set(&w->loop->rt, &w->timer, rt_after(rt_now(&w->loop->rt), wait_ns), on_timer);
}

/* --- on the thread --- */

void kernel_watch_count(struct kernel_watch_look *look, uint64_t box_id, const char *group)
{
    struct over *o = &look->over[look->over_count];

    if (look->over_count == OVER_MAX)
        return;
    hoard_count(group, look->max_bytes, &o->held);
    o->box_id = box_id;
    look->boxes += o->held.tasks > 0;
    look->is_blind = look->is_blind || o->held.is_unreadable;
    if (hoard_is_over(&o->held, look->max_bytes))
        look->over_count++;
}

static int run(struct work *work, struct err *err UNUSED)
{
    struct kernel_watch_look *look = container_of(work, struct kernel_watch_look, work);
    int before = getpriority(PRIO_PROCESS, 0);

    (void) setpriority(PRIO_PROCESS, 0, HURRY); /* not for an ordinary user */
    look->watch->each_box(look->watch->ctx, look);
    (void) setpriority(PRIO_PROCESS, 0, before);
    return SP_OK;
}

/* --- on the loop --- */

/* What the kernel cannot give back, in bytes; 0: not known. A short text that it makes from counters of its own:
 * nothing here waits for a disk. */
static uint64_t unreclaimable(const struct kernel_watch *w)
{
    static const char key[] = "SUnreclaim:";
    char text[TEXT_MAX];
    ssize_t n = pread(w->meminfo, text, sizeof(text) - 1, 0);
    const char *at;

    if (n <= 0)
        return 0;
    text[n] = '\0';
    at = strstr(text, key);
    return at != NULL ? strtoull(at + sizeof(key) - 1, NULL, 10) * 1024 : 0;
}

static void on_counted(struct op *op)
{
    struct kernel_watch_look *look = container_of(op, struct kernel_watch_look, work.op);
    struct kernel_watch *w = look->watch;
    uint64_t took_ns = rt_now(&w->loop->rt) - w->begun_ns;
    uint64_t wait_ns = MIN_OF(MAX_OF(COUNT_MIN_NS, took_ns * COUNT_SHARE), COUNT_MAX_NS);
    char what[160];

    if (op->result == SP_OK && w->is_blind != look->is_blind) {
        w->is_blind = look->is_blind;
        if (look->is_blind)
            log_warn("kernel_memory.unreadable",
                     LF_STR("reason", "processes of some boxes cannot be looked into"));
    }
    if (op->result == SP_OK)
        w->is_unseen = look->boxes == 0;
    for (unsigned i = 0; i < look->over_count && !w->closing->is_closing; i++) {
        hoard_describe(&look->over[i].held, what, sizeof(what));
        w->on_over(w->ctx, look->over[i].box_id, what);
    }
    log_debug("kernel_memory.counted", LF_U64("boxes", look->boxes),
              LF_U64("over", look->over_count), LF_U64("ms", took_ns / NS_PER_MS));
    /* One that takes long because of what a box holds says nothing about the next. */
    w->count_ns = rt_after(rt_now(&w->loop->rt), look->over_count > 0 ? COUNT_MIN_NS : wait_ns);
    free(look);
    if (!w->closing->is_closing)
        arm(w, MAX_OF(LOOK_NS, took_ns)); /* half of a thread's time at the most */
    closing_settle(w->closing);
}

static void begin_count(struct kernel_watch *w)
{
    struct kernel_watch_look *look = xcalloc(1, sizeof(*look));

    w->begun_ns = rt_now(&w->loop->rt);
    look->watch = w;
    look->max_bytes = w->max_bytes;
    look->work.run = run;
    work_start(w->loop, &look->work, &w->closing->inner, RT_NEVER, on_counted);
}

/* Growth by half of what one box may have is worth a count, however slowly it comes. What is charged to boxes grows the
 * same number: then nothing is found, and counts begin again from there. */
static void on_timer(struct rt_timer *timer)
{
    struct kernel_watch *w = container_of(timer, struct kernel_watch, timer);
    uint64_t now = unreclaimable(w);

    if (now < w->reference || w->reference == 0)
        w->reference = now;
    if ((now - w->reference >= w->max_bytes / 2 || w->count_ns <= rt_now(&w->loop->rt)) &&
        w->has_boxes(w->ctx)) {
        w->reference = now;
        begin_count(w);
    } else {
        arm(w, LOOK_NS);
    }
}

void kernel_watch_open(struct kernel_watch *w)
{
    w->meminfo = w->max_bytes > 0 ? open("/proc/meminfo", O_RDONLY | O_CLOEXEC) : -1;
    if (w->meminfo < 0)
        return;
    w->reference = unreclaimable(w);
    /* Boxes that run already may hold what an earlier daemon did not see. */
    if (w->reference > w->max_bytes / 2)
        w->reference -= w->max_bytes / 2;
    arm(w, LOOK_NS);
}

void kernel_watch_close(struct kernel_watch *w)
{
    rt_timer_cancel(&w->loop->rt, &w->timer);
    if (w->meminfo >= 0)
        (void) close(TAKE_FD(w->meminfo)); /* only read */
}

void kernel_watch_report(const struct kernel_watch *w, struct backend_exam *r, const char *key,
                         const char *why_not)
{
    if (why_not == NULL && w->max_bytes > 0 && w->meminfo < 0)
        why_not = "/proc/meminfo cannot be read";
    if (why_not == NULL && w->is_blind)
        why_not = "its processes cannot be looked into";
    if (w->max_bytes == 0)
        backend_report(r, BACKEND_FINDING_WARN, "kernel memory",
                       "a box can take any amount of the machine's memory by file locks and open "
                       "directories: %s is 0",
                       key);
    else if (why_not != NULL)
        backend_report(r, BACKEND_FINDING_WARN, "kernel memory",
                       "a box can take any amount of the machine's memory by file locks and open "
                       "directories, because %s",
                       why_not);
    else
        backend_report(r, BACKEND_FINDING_OK, "kernel memory",
                       "a box that holds more than %llu MB of it by file locks and open "
                       "directories is ended (%s)",
                       (unsigned long long) (w->max_bytes / (1024 * 1024)), key);
}
