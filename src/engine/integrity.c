/* integrity.c - whether the database is whole: a copy is made as for a backup and examined on a thread, so that no
 * commit waits for it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

#define CHECK_NS (20 * NS_PER_S)
#define MB (1024 * 1024)

struct integrity {
    struct store_write write;
    struct store_backup copy;
    struct work work;
    struct rt_timer timer;
    struct engine *engine;
    char path[CONFIG_PATH_MAX + 32];
    void (*on_done)(void *ctx, enum backend_finding_level level,
                    const char *text); /* NULL: called */
    void *ctx;
};

static void answer(struct integrity *i, enum backend_finding_level level, const char *text)
{
    void (*on_done)(void *, enum backend_finding_level, const char *) = i->on_done;

    i->on_done = NULL;
    rt_timer_cancel(i->engine->rt, &i->timer);
    if (on_done != NULL)
        on_done(i->ctx, level, text);
}

/* Whoever asked has been answered, or is now. */
static void end(struct integrity *i, enum backend_finding_level level, const char *text)
{
    struct engine *e = i->engine;

    if (i->copy.fd >= 0)
        (void) close(i->copy.fd); /* was not written */
    answer(i, level, text);
    free(i);
    engine_op_ended(e);
}

/* A disk can hang: what was begun ends when it answers. */
static void on_late(struct rt_timer *timer)
{
    answer(container_of(timer, struct integrity, timer), BACKEND_FINDING_WARN,
           "not checked: that took longer than 20 s");
}

static int examine(struct work *work, struct err *err)
{
    struct integrity *i = container_of(work, struct integrity, work);
    int r = store_check_copy(i->path, err);

    (void) unlink(i->path); /* one that stays is replaced by the next */
    return r;
}

static void on_examined(struct op *op)
{
    struct integrity *i = container_of(op, struct integrity, work.op);
    char text[320];

    if (op->result == SP_OK)
        (void) snprintf(text, sizeof(text), "whole, %.1f MB", (double) i->copy.bytes / MB);
    else
        (void) snprintf(text, sizeof(text),
                        "damaged: %.160s. Stop the daemon, keep a copy of the state directory, and "
                        "put the last backup in its place (docs/operating.md)",
                        op->err.msg);
    end(i, op->result == SP_OK ? BACKEND_FINDING_OK : BACKEND_FINDING_FAIL, text);
}

static void on_copied(struct op *op)
{
    struct integrity *i = container_of(op, struct integrity, write.op);
    char text[320];

    if (op->result == SP_OK) {
        i->work.run = examine;
        work_start(i->engine->loop, &i->work, NULL, RT_NEVER, on_examined);
        return;
    }
    (void) snprintf(text, sizeof(text), "not checked: %.240s", op->err.msg);
    end(i, BACKEND_FINDING_WARN, text);
}

void integrity_check(struct engine *e,
                     void (*on_done)(void *ctx, enum backend_finding_level level, const char *text),
                     void *ctx)
{
    struct integrity *i = xcalloc(1, sizeof(*i));

    i->engine = e;
    i->on_done = on_done;
    i->ctx = ctx;
    i->copy.fd = -1;
    i->copy.path = i->path;
    i->copy.is_for_check = true;
    (void) snprintf(i->path, sizeof(i->path), "%s/check.tmp", e->config->config->state_dir);
    i->write.kind = STORE_BACKUP;
    i->write.u.backup = &i->copy;
    rt_timer_set(e->rt, &i->timer, rt_after(rt_now(e->rt), CHECK_NS), on_late);
    engine_op_begun(e);
    store_submit(e->store, &i->write, on_copied);
}
