/* follow.c - whom a stream waits for, and how long. */
#include "agent/process/follow.h"

#include "base/mem.h"

enum { RESUME_ROOM = 256 * 1024 }; /* so that a program is not woken for every few bytes */

static struct process_follower *next_of(const struct process *p, struct list_node *n)
{
    n = n == NULL ? list_first(&p->followers) : list_next(&p->followers, n);
    return n != NULL ? container_of(n, struct process_follower, link) : NULL;
}

static struct process_follower *first_of(const struct process *p)
{
    return next_of(p, NULL);
}

static uint64_t room_for(const struct process_follower *f, unsigned stream)
{
    if (f->is_left_behind || f->at[stream] == FOLLOW_NOT)
        return UINT64_MAX;
    return output_room(&f->process->streams[stream].output, f->at[stream]);
}

static unsigned number_of(const struct process_stream *s)
{
    return (unsigned) (s - s->process->streams);
}

uint64_t process_room(const struct process_stream *s)
{
    uint64_t room = UINT64_MAX;

    for (struct process_follower *f = first_of(s->process); f != NULL;
         f = next_of(s->process, &f->link))
        room = MIN_OF(room, room_for(f, number_of(s)));
    return room;
}

static bool has_all(const struct process_follower *f, unsigned stream)
{
    return f->at[stream] != FOLLOW_NOT && f->at[stream] >= f->process->streams[stream].output.end;
}

/* Whether one waits, with nothing to read, for what a held stream will give. */
static bool has_waiting(const struct process *p)
{
    for (struct process_follower *f = first_of(p); f != NULL; f = next_of(p, &f->link))
        for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
            if (p->streams[i].is_held && has_all(f, i))
                return true;
    return false;
}

/* Reads on where there is room again. */
static void release(struct process *p)
{
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++) {
        struct process_stream *s = &p->streams[i];
        uint64_t enough = MIN_OF((uint64_t) RESUME_ROOM, output_reach(&s->output) / 4);

        if (s->is_held && process_room(s) >= enough)
            process_read_on(s);
    }
}

static void on_hold(struct rt_timer *timer)
{
    struct process *p = container_of(timer, struct process, hold);
    struct rt *rt = &p->table->loop->rt;
    bool is_waited_for = has_waiting(p);
    uint64_t next_ns = RT_NEVER;

    for (struct process_follower *f = first_of(p); f != NULL; f = next_of(p, &f->link)) {
        uint64_t end_ns = rt_after(f->since_ns, p->table->hold_max_ns);

        if (f->since_ns == 0)
            continue;
        if (rt_now(rt) < end_ns) {
            next_ns = MIN_OF(next_ns, end_ns);
        } else if (is_waited_for) {
            f->is_left_behind = true;
            f->since_ns = 0;
        } else { /* nobody minds; another may come */
            next_ns = MIN_OF(next_ns, rt_after(rt_now(rt), p->table->hold_max_ns));
        }
    }
    p->is_hold_timed = next_ns != RT_NEVER;
    if (p->is_hold_timed)
        rt_timer_set(rt, timer, next_ns, on_hold);
    release(p);
}

void process_held(struct process_stream *s)
{
    struct process *p = s->process;
    struct rt *rt = &p->table->loop->rt;

    for (struct process_follower *f = first_of(p); f != NULL; f = next_of(p, &f->link))
        if (f->since_ns == 0 && room_for(f, number_of(s)) == 0)
            f->since_ns = rt_now(rt);
    if (!p->is_hold_timed)
        rt_timer_set(rt, &p->hold, rt_after(rt_now(rt), p->table->hold_max_ns), on_hold);
    p->is_hold_timed = true;
}

/* Whether at least half of what may be behind it is read. */
static bool has_caught_up(const struct process_follower *f)
{
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++) {
        const struct output *o = &f->process->streams[i].output;

        if (f->at[i] != FOLLOW_NOT && output_room(o, f->at[i]) < output_reach(o) / 2)
            return false;
    }
    return true;
}

void process_follow(struct process *p, struct process_follower *f,
                    const uint64_t at[PROCESS_STREAM_COUNT])
{
    *f = (struct process_follower){.process = p};
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
        f->at[i] = at[i];
    list_push_back(&p->followers, &f->link);
}

void process_followed(struct process_follower *f, const uint64_t at[PROCESS_STREAM_COUNT])
{
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
        if (f->at[i] != FOLLOW_NOT)
            f->at[i] = at[i];
    if ((f->since_ns != 0 || f->is_left_behind) && has_caught_up(f)) {
        f->since_ns = 0;
        f->is_left_behind = false;
    }
    release(f->process);
}

void process_unfollow(struct process_follower *f)
{
    struct process *p = f->process;

    if (p == NULL)
        return;
    list_remove(&p->followers, &f->link);
    f->process = NULL;
    if (list_is_empty(&p->followers)) {
        rt_timer_cancel(&p->table->loop->rt, &p->hold);
        p->is_hold_timed = false;
    }
    release(p);
}
