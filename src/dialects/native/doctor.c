/* doctor.c - GET /v1/doctor: what the backends found on this machine, what it is like itself, and what is missing. */
#include <stdlib.h>

#include "base/mem.h"
#include "dialects/native/internal.h"
#include "front/machine.h"

struct doctor {
    struct http_exchange *ex; /* NULL: the caller has gone */
    struct machine_place place;
};

static const char *const level_names[] = {
    [BACKEND_FINDING_OK] = "ok",
    [BACKEND_FINDING_WARN] = "warn",
    [BACKEND_FINDING_FAIL] = "fail",
};

static_assert(ARRAY_LEN(level_names) == BACKEND_FINDING_LEVEL_COUNT, "a name for each level");

/* False when no box can be made there. */
static bool put_exam(struct json_out *o, const struct engine_exam *exam)
{
    bool is_good = true;

    json_begin_obj(o, NULL);
    json_put_str(o, "name", exam->name);
    json_begin_arr(o, "findings");
    for (size_t i = 0; i < exam->count; i++) {
        const struct backend_finding *f = &exam->findings[i];

        json_begin_obj(o, NULL);
        json_put_str(o, "level", level_names[f->level]);
        json_put_str(o, "subject", f->subject);
        json_put_str(o, "text", f->text);
        json_end(o);
        is_good = is_good && f->level != BACKEND_FINDING_FAIL;
    }
    json_end(o);
    json_end(o);
    return is_good;
}

static void on_examined(void *ctx, const struct engine_exam *exams, size_t count)
{
    struct doctor *d = ctx;
    bool is_good = true;
    struct json_out o;

    if (d->ex != NULL) {
        json_out_init(&o);
        json_begin_obj(&o, NULL);
        json_begin_arr(&o, "backends");
        for (size_t i = 0; i < count; i++)
            is_good = put_exam(&o, &exams[i]) && is_good;
        json_end(&o);
        json_put_bool(&o, "ok", is_good);
        json_end(&o);
        http_reply_json(d->ex, 200, &o);
    }
    free(d);
}

static void on_gone(void *ctx)
{
    struct doctor *d = ctx;

    d->ex = NULL; /* the examination goes on; its end frees */
}

/* On a thread. */
static void examine_machine(void *ctx, struct backend_exam *r)
{
    const struct doctor *d = ctx;

    machine_examine(&d->place, r);
}

void api_doctor(struct http_exchange *ex)
{
    struct engine *e = api_of(ex)->engine;
    struct doctor *d = xcalloc(1, sizeof(*d));

    d->ex = ex;
    machine_place(engine_config(e), true, &d->place);
    http_set_ctx(ex, d, on_gone);
    engine_examine(e, examine_machine, on_examined, d);
}
