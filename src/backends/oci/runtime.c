/* runtime.c - which OCI runtime works here. Being installed proves nothing: a runtime is good when it
 * has made a box, and what it says when it has not is kept for whoever asks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"

#define TRIAL_NS (30 * NS_PER_S)

enum { KILLS_MAX = 3 }; /* a trial that somebody has killed is repeated at once, so often */

/* Tried in this order when a profile does not say. */
static const char *const usual[] = {"crun", "runc", "runsc"};

struct trial {
    struct backend_create create;
    struct backend_destroy destroy;
    struct config_profile profile;
    struct oci *oci;
    struct oci_runtime *runtime;
};

bool oci_find_program(const char *name, char *dst, size_t cap)
{
    const char *path = getenv("PATH");
    char all[1024];
    char *dir = all;

    (void) snprintf(all, sizeof(all), "%.800s:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
                    path != NULL ? path : "");
    while (*dir != '\0') {
        int len = (int) strcspn(dir, ":");

        if (len > 0 && (size_t) snprintf(dst, cap, "%.*s/%s", len, dir, name) < cap &&
            access(dst, X_OK) == 0)
            return true;
        dir += len;
        dir += *dir == ':';
    }
    str_copy_cut(dst, cap, "");
    return false;
}

static enum oci_flavour flavour_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *last = slash != NULL ? slash + 1 : name;

    if (strncmp(last, "runsc", 5) == 0)
        return OCI_RUNSC;
    return strncmp(last, "crun", 4) == 0 ? OCI_CRUN : OCI_RUNC;
}

static struct oci_runtime *add(struct oci *o, const char *name)
{
    struct oci_runtime *r;

    if (o->runtime_count == OCI_RUNTIMES_MAX)
        return NULL;
    r = &o->runtimes[o->runtime_count++];
    str_copy_cut(r->name, sizeof(r->name), name);
    r->flavour = flavour_of(name);
    if (name[0] == '/')
        str_copy_cut(r->path, sizeof(r->path), name);
    return r;
}

void oci_runtimes_init(struct oci *o)
{
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        (void) add(o, usual[i]);
    (void) oci_find_program("slirp4netns", o->slirp, sizeof(o->slirp));
    (void) oci_find_program("pasta", o->pasta, sizeof(o->pasta));
    (void) oci_find_program("nft", o->nft, sizeof(o->nft));
}

static struct oci_runtime *find(struct oci *o, const char *name)
{
    for (unsigned i = 0; i < o->runtime_count; i++)
        if (strcmp(o->runtimes[i].name, name) == 0)
            return &o->runtimes[i];
    return add(o, name);
}

struct oci_runtime *oci_runtime_by_path(struct oci *o, const char *path)
{
    for (unsigned i = 0; i < o->runtime_count; i++) {
        struct oci_runtime *r = &o->runtimes[i];

        if (str_is_empty(r->path))
            (void) oci_find_program(r->name, r->path, sizeof(r->path));
        if (strcmp(r->path, path) == 0)
            return r;
    }
    return path[0] == '/' ? add(o, path) : NULL;
}

struct oci_runtime *oci_runtime_by_flavour(struct oci *o, enum oci_flavour flavour)
{
    for (unsigned i = 0; i < o->runtime_count; i++) {
        struct oci_runtime *r = &o->runtimes[i];

        if (r->flavour == flavour &&
            (!str_is_empty(r->path) || oci_find_program(r->name, r->path, sizeof(r->path))))
            return r;
    }
    return NULL;
}

/* --- trials --- */

static void on_trial_removed(struct op *op)
{
    struct trial *t = container_of(op, struct trial, destroy.op);

    free(t); /* what could not be removed was logged */
}

static void on_tried(struct op *op)
{
    struct trial *t = container_of(op, struct trial, create.op);
    struct oci *o = t->oci;
    struct oci_runtime *r = t->runtime;

    r->tried_ns = rt_now(&o->loop->rt);
    r->kills = op->result != SP_OK && r->was_killed ? r->kills + 1 : 0;
    if (r->kills > 0 && r->kills <= KILLS_MAX && !o->closing.is_closing) {
        log_info("oci.trial_killed", LF_STR("runtime", r->path), LF_STR("reason", op->err.msg));
        r->trial = OCI_UNTRIED; /* whoever waits for it begins the next */
        free(t);
        oci_wake(o);
        return;
    }
    r->kills = 0;
    r->trial = op->result == SP_OK ? OCI_WORKS : OCI_FAILED;
    r->why = op->err;
    if (op->result != SP_OK)
        log_info("oci.runtime_refused", LF_STR("runtime", r->path), LF_STR("reason", r->why.msg));
    else
        log_info("oci.runtime", LF_STR("runtime", r->path));
    if (op->result == SP_OK && !o->closing.is_closing) {
        t->destroy.box = t->create.box;
        oci_destroy(&o->base, &t->destroy, rt_after(rt_now(&o->loop->rt), OCI_REMOVE_NS),
                    on_trial_removed);
    } else {
        free(t);
    }
    oci_wake(o);
}

static void try_runtime(struct oci *o, struct oci_runtime *r)
{
    struct trial *t = xcalloc(1, sizeof(*t));

    t->oci = o;
    t->runtime = r;
    str_copy_cut(t->profile.name, sizeof(t->profile.name), "trial");
    str_copy_cut(t->profile.rootfs, sizeof(t->profile.rootfs), "host");
    str_copy_cut(t->profile.user, sizeof(t->profile.user), "user");
    t->profile.limits.memory = 256ULL * 1024 * 1024;
    t->profile.limits.cpus = 1000;
    t->profile.limits.pids = 64;
    t->create.profile = &t->profile;
    rand_secure(&t->create.labels.box_id, sizeof(t->create.labels.box_id));
    str_copy_cut(t->create.token, sizeof(t->create.token), "trial");
    r->trial = OCI_TRYING;
    r->was_killed = false;
    oci_create_trial(o, &t->create, r, rt_after(rt_now(&o->loop->rt), TRIAL_NS), on_tried);
}

/* SP_OK, ERR_NOT_READY, or why this one is no good. */
static int ask(struct oci *o, struct oci_runtime *r, struct err *err)
{
    if (r->trial == OCI_FAILED && rt_now(&o->loop->rt) - r->tried_ns > OCI_RETRY_NS)
        r->trial = OCI_UNTRIED;
    if (r->trial == OCI_UNTRIED &&
        (r->name[0] == '/' ? access(r->path, X_OK) != 0
                           : !oci_find_program(r->name, r->path, sizeof(r->path))))
        return err_set(err, SP_BACKEND_UNAVAILABLE, "%s is not installed", r->name);
    switch (r->trial) {
    case OCI_UNTRIED:
        try_runtime(o, r);
        return ERR_NOT_READY;
    case OCI_TRYING:
        return ERR_NOT_READY;
    case OCI_WORKS:
        return SP_OK;
    case OCI_FAILED:
    case OCI_TRIAL_COUNT:
        break;
    }
    return err_set(err, SP_BACKEND_UNAVAILABLE, "%s: %s", r->name, r->why.msg);
}

int oci_runtime_for(struct oci *o, const char *name, struct oci_runtime **ret, struct err *err)
{
    struct err all = {0};
    size_t len = 0;
    int ready = oci_base_ready(o, err); /* trials need it: its trouble must not look like theirs */

    if (ready != SP_OK)
        return ready;
    if (!str_is_empty(name)) {
        *ret = find(o, name);
        if (*ret == NULL)
            return err_set(err, SP_CONFIG, "more than %d different runtimes", OCI_RUNTIMES_MAX);
        return ask(o, *ret, err);
    }
    for (size_t i = 0; i < ARRAY_LEN(usual); i++) {
        struct err one;
        int rc;

        *ret = find(o, usual[i]);
        rc = ask(o, *ret, &one);
        if (rc == SP_OK || rc == ERR_NOT_READY)
            return rc;
        if ((*ret)->trial != OCI_FAILED)
            continue; /* not installed: no reason to report */
        (void) snprintf(all.msg + len, sizeof(all.msg) - len, "%s%.80s", len > 0 ? "; " : "",
                        one.msg);
        len = strlen(all.msg);
    }
    if (len == 0)
        return err_set(err, SP_BACKEND_UNAVAILABLE,
                       "no OCI runtime is installed: apt-get install %s",
                       o->is_cgroup_v2 ? "crun (or runc)" : "runc");
    return err_set(err, SP_BACKEND_UNAVAILABLE,
                   "no OCI runtime works, `sandpool doctor` shows why: %.180s", all.msg);
}

/* What its trial has shown, or that it is not there; no trial is begun. */
static bool is_useless(struct oci_runtime *r, char *dst, size_t cap)
{
    if (r->trial == OCI_FAILED)
        (void) snprintf(dst, cap, "%s cannot be used: %.100s", r->name, r->why.msg);
    else if (r->trial == OCI_UNTRIED &&
             (r->name[0] == '/' ? access(r->path, X_OK) != 0
                                : !oci_find_program(r->name, r->path, sizeof(r->path))))
        (void) snprintf(dst, cap, "the runtime %s is not installed", r->name);
    else
        return false;
    return true;
}

bool oci_trouble(struct backend *b, const struct config_profile *p, char *dst, size_t cap)
{
    struct oci *o = oci_of(b);
    bool is_any_there = false;

    if (!str_is_empty(p->runtime)) {
        struct oci_runtime *r = find(o, p->runtime);

        return r != NULL && is_useless(r, dst, cap);
    }
    for (size_t i = 0; i < ARRAY_LEN(usual); i++) {
        struct oci_runtime *r = find(o, usual[i]);

        if (r == NULL || !is_useless(r, dst, cap)) {
            dst[0] = '\0'; /* that of another one is no trouble */
            return false;
        }
        is_any_there = is_any_there || r->trial == OCI_FAILED;
    }
    if (!is_any_there)
        str_copy_cut(dst, cap, "no OCI runtime is installed: apt-get install runc (or crun)");
    else
        str_copy_cut(dst, cap, "no OCI runtime works, `sandpool doctor` says why");
    return true;
}
