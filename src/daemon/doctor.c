/* doctor.c - sandpoold --doctor: every backend of the configuration opened, examined and closed, one
 * after the other, in a private directory that is removed again. */
#include "daemon/doctor.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "front/machine.h"
#include "loop/httpc.h"

#define EXAM_TIMEOUT_NS (30 * NS_PER_S)

enum { KEY_MAX = 512, OUTPUT_MAX = 16 * 1024 * 1024 };

struct doctor {
    struct loop loop;
    struct httpc *http;
    struct config *config;
    char dir[CONFIG_PATH_MAX + 1]; /* "": none */
    unsigned next;                 /* profile */
    char key[KEY_MAX];             /* of the backend that is examined */
    struct backend *backend;
    struct backend_events events;
    struct backend_exam exam;
    struct backend_exam machine;
    struct json_out out;
    bool has_failed;
};

static const char *level_name(enum backend_finding_level level)
{
    switch (level) {
    case BACKEND_FINDING_OK:
        return "ok";
    case BACKEND_FINDING_WARN:
        return "warn";
    case BACKEND_FINDING_FAIL:
    case BACKEND_FINDING_LEVEL_COUNT:
        break;
    }
    return "fail";
}

/* Writes down what was found of one backend. */
static void put_exam(struct doctor *d, const char *name)
{
    json_begin_obj(&d->out, NULL);
    json_put_str(&d->out, "name", name);
    json_begin_arr(&d->out, "findings");
    for (size_t i = 0; i < d->exam.count; i++) {
        const struct backend_finding *f = &d->exam.findings[i];

        d->has_failed = d->has_failed || f->level == BACKEND_FINDING_FAIL;
        json_begin_obj(&d->out, NULL);
        json_put_str(&d->out, "level", level_name(f->level));
        json_put_str(&d->out, "subject", f->subject);
        json_put_str(&d->out, "text", f->text);
        json_end(&d->out);
    }
    json_end(&d->out);
    json_end(&d->out);
    backend_exam_fini(&d->exam);
}

static void on_died(void *ctx, uint64_t box_id, const char *reason)
{
    (void) ctx; /* there are no boxes in a state directory that was just made */
    (void) box_id;
    (void) reason;
}

static void on_resync(void *ctx)
{
    (void) ctx;
}

static void on_http_closed(void *ctx)
{
    struct doctor *d = ctx;

    loop_stop(&d->loop);
}

static void examine_next(struct doctor *d);

static void on_backend_closed(void *ctx)
{
    struct doctor *d = ctx;

    d->backend = NULL;
    examine_next(d);
}

/* A backend may work, and not for every profile. */
static void report_profiles(struct doctor *d)
{
    const struct backend_ops *ops = d->backend->ops;

    for (unsigned i = 0; i < d->config->profile_count && ops->trouble != NULL; i++) {
        const struct config_profile *p = &d->config->profiles[i];
        char key[KEY_MAX];
        char subject[48];
        char why[320];

        backend_key(p, key, sizeof(key));
        if (strcmp(key, d->key) != 0 || !ops->trouble(d->backend, p, why, sizeof(why)))
            continue;
        (void) snprintf(subject, sizeof(subject), "profile %.38s", p->name);
        backend_report(&d->exam, BACKEND_FINDING_FAIL, subject, "%s", why);
    }
}

static void on_examined(struct op *op)
{
    struct doctor *d = container_of(op, struct doctor, exam.op);

    if (op->result != SP_OK)
        backend_report(&d->exam, BACKEND_FINDING_FAIL, "examination", "%s", op->err.msg);
    report_profiles(d);
    put_exam(d, d->key);
    d->backend->ops->close(d->backend, on_backend_closed, d);
}

/* False when it cannot be opened; that is written down. */
static bool open_backend(struct doctor *d, const struct config_profile *profile)
{
    const struct backend_ops *ops = backend_by_name(profile->backend);
    struct backend_env env = {.loop = &d->loop,
                              .http = d->http,
                              .instance = "doctor",
                              .state_dir = d->dir,
                              .config = d->config,
                              .events = &d->events};
    struct err err;

    if (ops == NULL) /* the configuration was checked: its names are known */
        (void) err_set(&err, SP_CONFIG, "there is no backend '%s'", profile->backend);
    else if (ops->open(&env, profile, &d->backend, &err) == SP_OK)
        return true;
    backend_report(&d->exam, BACKEND_FINDING_FAIL, "start", "%s", err.msg);
    put_exam(d, d->key);
    return false;
}

static bool is_seen(const struct doctor *d, const char *key)
{
    char other[KEY_MAX];

    for (unsigned i = 0; i + 1 < d->next; i++) {
        backend_key(&d->config->profiles[i], other, sizeof(other));
        if (strcmp(other, key) == 0)
            return true;
    }
    return false;
}

static void examine_next(struct doctor *d)
{
    uint64_t deadline_ns = rt_after(rt_now(&d->loop.rt), EXAM_TIMEOUT_NS);

    while (d->next < d->config->profile_count) {
        const struct config_profile *profile = &d->config->profiles[d->next];

        d->next++;
        backend_key(profile, d->key, sizeof(d->key));
        if (is_seen(d, d->key) || !open_backend(d, profile))
            continue;
        if (d->backend->ops->examine != NULL) {
            d->backend->ops->examine(d->backend, &d->exam, deadline_ns, on_examined);
        } else {
            put_exam(d, d->key);
            d->backend->ops->close(d->backend, on_backend_closed, d);
        }
        return;
    }
    httpc_close(d->http, on_http_closed, d);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void) st;
    (void) kind;
    (void) ftw;
    (void) remove(path); /* what cannot be removed is left: the others still are */
    return 0;
}

static int make_work_dir(struct doctor *d, struct err *err)
{
    const char *top = getenv("TMPDIR");

    (void) snprintf(d->dir, sizeof(d->dir), "%.200s/sandpool-doctor-XXXXXX",
                    top != NULL && top[0] == '/' ? top : "/tmp");
    if (mkdtemp(d->dir) == NULL) {
        d->dir[0] = '\0';
        return err_sys(err, SP_IO, errno, "no directory to work in");
    }
    str_copy_cut(d->config->state_dir, sizeof(d->config->state_dir),
                 d->dir); /* fits: it is short */
    return SP_OK;
}

static int examine_all(struct doctor *d, struct err *err)
{
    struct httpc_limits limits = {
        .connections = 16, .connections_per_host = 4, .connect_timeout_ms = 5000};
    int r = loop_init(&d->loop, err);

    if (r != SP_OK)
        return r;
    r = httpc_new(&d->loop, &limits, &d->http, err);
    if (r == SP_OK) {
        examine_next(d);
        loop_run(&d->loop);
    }
    loop_fini(&d->loop);
    return r;
}

static int print(struct doctor *d)
{
    struct buf text;
    bool is_written;

    json_end(&d->out);
    json_put_bool(&d->out, "ok", !d->has_failed);
    json_end(&d->out);
    buf_init(&text, OUTPUT_MAX);
    json_out_finish(&d->out, &text);
    is_written = !buf_failed(&text) && puts(buf_str(&text)) != EOF && fflush(stdout) == 0;
    buf_fini(&text);
    return d->has_failed || !is_written;
}

/* What it is like whatever backends there are. Before the state directory is replaced by one to work in. */
static void examine_machine(struct doctor *d)
{
    struct machine_place place;

    machine_place(d->config, false, &place);
    machine_examine(&place, &d->machine);
}

int doctor_run(const struct daemon_options *options)
{
    struct doctor *d = calloc(1, sizeof(*d));
    struct err err;
    int r = d != NULL ? daemon_load_config(options, &d->config, &err)
                      : err_set(&err, SP_NO_MEMORY, "out of memory");

    if (d == NULL) {
        (void) fprintf(stderr, "sandpoold: %s\n", err.msg);
        return 1;
    }
    log_setup(STDERR_FILENO, LOG_ERROR, LOG_LOGFMT);
    d->events = (struct backend_events){.ctx = d, .on_died = on_died, .on_resync = on_resync};
    json_out_init(&d->out);
    json_begin_obj(&d->out, NULL);
    json_begin_arr(&d->out, "backends");
    if (r == SP_OK)
        examine_machine(d);
    if (r == SP_OK)
        r = make_work_dir(d, &err);
    if (r == SP_OK)
        r = examine_all(d, &err);
    if (r != SP_OK) {
        backend_report(&d->exam, BACKEND_FINDING_FAIL,
                       d->config == NULL ? "configuration" : "start", "%s", err.msg);
        put_exam(d, "sandpoold");
    }
    if (d->machine.count > 0) {
        d->exam = d->machine;
        put_exam(d, "machine");
    }
    if (!str_is_empty(d->dir))
        (void) nftw(d->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    (void) config_free(d->config);
    log_flush_wait();
    r = print(d);
    free(d);
    return r;
}
