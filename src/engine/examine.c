/* examine.c - asks every backend what it found on this machine, and looks at disk, database and profiles, for
 * `sandpool doctor`. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

#define MB (1024 * 1024)

enum { EXAMS_MORE = 4 }; /* besides those of backends */

struct examiner {
    struct engine *engine;
    unsigned left; /* those that have not answered, and the start itself */
    unsigned count;
    void (*on_done)(void *ctx, const struct engine_exam *exams, size_t count);
    void *ctx;
    struct exam_op {
        struct backend_exam exam;
        struct examiner *examiner;
    } ops[ENGINE_BACKENDS_MAX];
    struct work work; /* examines the machine */
    void (*examine_machine)(void *ctx, struct backend_exam *r);
    struct backend_exam machine;
    struct backend_exam disk;
    struct backend_exam database;
    struct backend_exam profiles;
    struct engine_exam exams[ENGINE_BACKENDS_MAX + EXAMS_MORE];
};

static void examine_threads(struct examiner *x, const struct engine_disk *d)
{
    unsigned long long free_mb = d->threads.free_bytes / MB;

    if (!d->threads.is_known)
        return;
    if (d->threads.is_shared)
        backend_report(
            &x->disk, BACKEND_FINDING_WARN, "thread data",
            "%.160s (provisioner.thread_data) is on the file system of the state directory, "
            "%llu MB free, and threads have no limit of space: one that fills it keeps "
            "everybody from new boxes. Put it on a file system of its own",
            d->threads.dir, free_mb);
    else
        backend_report(&x->disk,
                       d->threads.free_bytes < d->floor_bytes ? BACKEND_FINDING_WARN
                                                              : BACKEND_FINDING_OK,
                       "thread data", "%llu MB in %.160s, without a limit for each thread", free_mb,
                       d->threads.dir);
}

static void examine_disk(struct examiner *x)
{
    const struct engine_disk *d = engine_disk(x->engine);

    if (!d->is_known)
        return;
    if (d->is_low)
        backend_report(&x->disk, BACKEND_FINDING_FAIL, "free space",
                       "%s: no new box is made. Destroy boxes, or lower store.min_free", d->reason);
    else
        backend_report(&x->disk, BACKEND_FINDING_OK, "free space", "%llu MB in %.160s",
                       (unsigned long long) (d->free_bytes / MB), d->dir);
    if (d->free_inodes > 0) /* some file systems do not count them */
        backend_report(&x->disk, BACKEND_FINDING_OK, "inodes", "%llu free",
                       (unsigned long long) d->free_inodes);
    examine_threads(x, d);
    for (unsigned i = 0; i < d->largest_count; i++) {
        const struct pool_box *box = pool_find_box(x->engine->pool, d->largest[i].box);

        backend_report(&x->disk, BACKEND_FINDING_OK, "large box", "%016llx%s%s takes %llu MB",
                       (unsigned long long) d->largest[i].box.v,
                       box != NULL && !str_is_empty(box->sandbox_id) ? ", sandbox " : "",
                       box != NULL ? box->sandbox_id : "",
                       (unsigned long long) (d->largest[i].bytes / MB));
    }
}

static void examine_database(struct examiner *x)
{
    const char *trouble = engine_store_trouble(x->engine);
    struct store_stats stats;

    engine_get_store_stats(x->engine, &stats);
    if (trouble != NULL)
        backend_report(&x->database, BACKEND_FINDING_FAIL, "writes", "%.280s", trouble);
    else
        backend_report(&x->database, BACKEND_FINDING_OK, "writes",
                       "%llu in %llu commits, %llu failed", (unsigned long long) stats.writes,
                       (unsigned long long) stats.commits, (unsigned long long) stats.failures);
}

/* An image that is being fetched is no trouble yet. */
static void examine_images(struct examiner *x)
{
    for (unsigned i = 0; i < x->count; i++)
        if (!str_is_empty(x->engine->backends[i].progress))
            backend_report(&x->profiles, BACKEND_FINDING_WARN, "image", "%.280s",
                           x->engine->backends[i].progress);
}

/* What keeps acquires from succeeding, in the words of /readyz. */
static void examine_profiles(struct examiner *x)
{
    struct engine *e = x->engine;
    struct pool_stats stats;

    pool_get_stats(e->pool, &stats);
    for (unsigned i = 0; i < stats.profile_count; i++) {
        char why[ENGINE_TROUBLE_MAX];

        if (profiles_config(e, i) == NULL)
            continue;
        if (engine_profile_trouble(e, i, why, sizeof(why)))
            backend_report(&x->profiles, BACKEND_FINDING_FAIL, pool_profile(e->pool, i)->name, "%s",
                           why);
        else if (!str_is_empty(why))
            backend_report(&x->profiles, BACKEND_FINDING_WARN, pool_profile(e->pool, i)->name,
                           "only boxes that there are can be had: %s", why);
        else
            backend_report(&x->profiles, BACKEND_FINDING_OK, pool_profile(e->pool, i)->name,
                           "boxes can be had");
    }
}

static void put_more(struct examiner *x)
{
    const struct {
        const char *name;
        const struct backend_exam *exam;
    } more[EXAMS_MORE] = {{"machine", &x->machine},
                          {"disk", &x->disk},
                          {"database", &x->database},
                          {"profiles", &x->profiles}};

    for (unsigned i = 0; i < EXAMS_MORE; i++)
        x->exams[x->count + i] = (struct engine_exam){
            .name = more[i].name, .findings = more[i].exam->findings, .count = more[i].exam->count};
}

static void one_less(struct examiner *x)
{
    x->left--;
    if (x->left > 0)
        return;
    for (unsigned i = 0; i < x->count; i++) {
        x->exams[i] = (struct engine_exam){.name = x->engine->backends[i].key,
                                           .findings = x->ops[i].exam.findings,
                                           .count = x->ops[i].exam.count};
    }
    examine_disk(x);
    examine_database(x);
    examine_profiles(x);
    examine_images(x);
    put_more(x);
    x->on_done(x->ctx, x->exams, x->count + EXAMS_MORE);
    backend_exam_fini(&x->machine);
    backend_exam_fini(&x->disk);
    backend_exam_fini(&x->database);
    backend_exam_fini(&x->profiles);
    for (unsigned i = 0; i < x->count; i++)
        backend_exam_fini(&x->ops[i].exam);
    free(x);
}

static void on_examined(struct op *op)
{
    struct exam_op *o = container_of(op, struct exam_op, exam.op);
    struct engine *e = o->examiner->engine;

    if (op->result != SP_OK)
        backend_report(&o->exam, BACKEND_FINDING_FAIL, "examination", "did not come to its end: %s",
                       str_is_empty(op->err.msg) ? err_text(op->result) : op->err.msg);
    one_less(o->examiner);
    engine_op_ended(e);
}

static void on_database(void *ctx, enum backend_finding_level level, const char *text)
{
    struct examiner *x = ctx;
    struct engine *e = x->engine;

    backend_report(&x->database, level, "integrity", "%s", text);
    one_less(x);
    engine_op_ended(e);
}

static int run_machine(struct work *work, struct err *err UNUSED)
{
    struct examiner *x = container_of(work, struct examiner, work);

    x->examine_machine(x->ctx, &x->machine);
    return SP_OK;
}

static void on_machine(struct op *op)
{
    struct examiner *x = container_of(op, struct examiner, work.op);
    struct engine *e = x->engine;

    one_less(x);
    engine_op_ended(e);
}

static void examine_backends(struct examiner *x)
{
    struct engine *e = x->engine;
    uint64_t deadline_ns = rt_after(rt_now(e->rt), ENGINE_EXAM_TIMEOUT_NS);

    for (unsigned i = 0; i < x->count; i++) {
        struct backend *b = e->backends[i].backend;

        if (b->ops->examine == NULL)
            continue;
        x->ops[i].examiner = x;
        x->left++;
        engine_op_begun(e);
        b->ops->examine(b, &x->ops[i].exam, deadline_ns, on_examined);
    }
}

void engine_examine(struct engine *e, void (*examine_machine)(void *ctx, struct backend_exam *r),
                    void (*on_done)(void *ctx, const struct engine_exam *exams, size_t count),
                    void *ctx)
{
    struct examiner *x = xcalloc(1, sizeof(*x));

    x->engine = e;
    x->on_done = on_done;
    x->ctx = ctx;
    x->count = e->backend_count;
    x->left = 3; /* the machine, the database, and the start itself */
    x->examine_machine = examine_machine;
    x->work.run = run_machine;
    engine_op_begun(e);
    work_start(e->loop, &x->work, NULL, RT_NEVER, on_machine);
    engine_op_begun(e);
    integrity_check(e, on_database, x);
    examine_backends(x);
    one_less(x);
}
