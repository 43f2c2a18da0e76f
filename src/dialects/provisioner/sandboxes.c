/* sandboxes.c - shows sandboxes. Answers come from the pool's memory; the backend is asked only for
 * a box whose death it would not report by itself. Boxes of other callers are not shown. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "dialects/provisioner/internal.h"

static bool is_ours(const struct provisioner *p, const struct pool_box *box)
{
    return box->principal == p->principal && !str_is_empty(box->sandbox_id);
}

static bool is_ending(const struct pool_box *box)
{
    return box->state == POOL_DOOMED || box->state == POOL_DESTROYING;
}

const struct pool_box *provisioner_find(const struct provisioner *p, const char *sandbox_id)
{
    const struct pool_box *box = pool_find_sandbox(engine_pool(p->engine), sandbox_id);

    return box != NULL && is_ours(p, box) ? box : NULL;
}

const struct pool_box *provisioner_find_ending(const struct provisioner *p, const char *sandbox_id)
{
    const struct pool_box *box = pool_find_ending(engine_pool(p->engine), sandbox_id);

    return box != NULL && is_ending(box) && is_ours(p, box) ? box : NULL;
}

/* What was asked for when it was made; the pool keeps it with the lease. */
static void put_sessions(struct json_out *o, const struct provisioner *p,
                         const struct pool_box *box)
{
    const char *metadata = box != NULL ? engine_metadata(p->engine, box->id) : NULL;
    struct json_doc *doc =
        metadata != NULL ? json_parse(metadata, strlen(metadata), strlen(metadata), NULL) : NULL;
    uint64_t count;

    if (doc != NULL && json_u64(json_get(json_root(doc), "max_shell_sessions"), &count))
        json_put_u64(o, "max_shell_sessions", count);
    else
        json_put_null(o, "max_shell_sessions");
    (void) json_doc_free(doc);
}

void provisioner_put_sandbox(struct json_out *o, struct http_exchange *ex, const char *sandbox_id,
                             const struct pool_box *box, const char *status)
{
    char url[BOX_ADDRESS_MAX] = "";
    char hex[17];

    if (box != NULL && pool_is_shown(box)) /* the URL works like a password: only for a committed
                                            * lease */
        provisioner_url(ex, box, url);
    if (box != NULL)
        str_hex64(hex, box->id.v);
    json_put_str(o, "sandbox_id", sandbox_id);
    json_put_str(o, "sandbox_url", url);
    json_put_str(o, "status", status);
    put_sessions(o, provisioner_of(ex), box);
    json_put_str(o, "container_id", box != NULL ? hex : NULL);
    json_put_bool(o, "lark_cli_broker", false);
}

static const char *status_of(const struct provisioner *p, const struct pool_box *box)
{
    if (is_ending(box))
        return "Terminating";
    if (!pool_is_shown(box) || provisioner_is_pending(p, box->sandbox_id))
        return "Pending"; /* its caller has not got the answer yet */
    return "Running";
}

static void reply_box(struct http_exchange *ex, const char *id, const struct pool_box *box)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    provisioner_put_sandbox(&o, ex, id, box,
                            box != NULL ? status_of(provisioner_of(ex), box) : "Pending");
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static void reply_known(struct http_exchange *ex, const char *id)
{
    const struct provisioner *p = provisioner_of(ex);
    const struct pool_box *box = provisioner_find(p, id);
    bool is_pending = box == NULL && provisioner_is_pending(p, id);

    if (box == NULL && !is_pending)
        box = provisioner_find_ending(p, id);
    if (box != NULL || is_pending)
        reply_box(ex, id, box);
    else
        provisioner_refuse(ex, 404, 0, "Sandbox '%s' not found", id);
}

/* One whose backend is being asked. */
struct look {
    struct http_exchange *ex; /* NULL: the caller has gone */
    struct box_id box;
    char sandbox_id[POOL_ID_MAX + 1];
};

static void on_checked(void *ctx, enum pool_verdict verdict)
{
    struct look *k = ctx;
    const struct pool_box *box =
        k->ex != NULL ? provisioner_find(provisioner_of(k->ex), k->sandbox_id) : NULL;

    /* The pool is notified of a death, too, but later. */
    if (verdict == POOL_DEAD && box != NULL && box->id.v == k->box.v)
        provisioner_refuse(k->ex, 404, 0, "Sandbox '%s' not found", k->sandbox_id);
    else if (k->ex != NULL) {
        struct provisioner *p = provisioner_of(k->ex);

        reply_known(k->ex, k->sandbox_id);
        provisioner_hold(p, k->sandbox_id);
    }
    free(k);
}

static void on_look_gone(void *ctx)
{
    struct look *k = ctx;

    k->ex = NULL; /* the backend still answers; on_checked() frees */
}

static bool is_watched(const struct provisioner *p, const struct pool_box *box)
{
    return pool_profile(engine_pool(p->engine), box->profile)->is_watched;
}

void provisioner_get(struct http_exchange *ex)
{
    struct provisioner *p = provisioner_of(ex);
    const char *id = http_path_param(ex, "id");
    const struct pool_box *box = provisioner_find(p, id);
    char held[POOL_ID_MAX + 1];
    struct look *k;

    if (box == NULL || !pool_is_shown(box) || is_watched(p, box)) {
        str_copy_cut(held, sizeof(held), id);
        reply_known(ex, id);
        provisioner_hold(p, held); /* after the answer, which would call it Pending otherwise */
        return;
    }
    k = xcalloc(1, sizeof(*k));
    k->ex = ex;
    k->box = box->id;
    str_copy_cut(k->sandbox_id, sizeof(k->sandbox_id), box->sandbox_id);
    http_set_ctx(ex, k, on_look_gone);
    engine_check_box(p->engine, k->box, on_checked, k);
}

void provisioner_presence(struct http_exchange *ex)
{
    const struct provisioner *p = provisioner_of(ex);
    const char *id = http_path_param(ex, "id");
    const struct pool_box *box = provisioner_find(p, id);
    struct json_out o;
    char hex[17];

    if (box == NULL)
        box = provisioner_find_ending(p, id);
    if (box != NULL)
        str_hex64(hex, box->id.v);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "sandbox_id", id);
    json_put_bool(&o, "exists", box != NULL);
    json_put_str(&o, "container_id", box != NULL ? hex : NULL);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static int by_lease(const void *a, const void *b)
{
    const struct pool_box *x = *(const struct pool_box *const *) a;
    const struct pool_box *y = *(const struct pool_box *const *) b;

    return (x->leased_ns > y->leased_ns) - (x->leased_ns < y->leased_ns);
}

void provisioner_list(struct http_exchange *ex)
{
    const struct provisioner *p = provisioner_of(ex);
    const struct pool *pool = engine_pool(p->engine);
    AUTO_FREE const struct pool_box **found = NULL;
    size_t cap = 0;
    struct json_out o;
    size_t count = 0;

    for (const struct pool_box *box = pool_first_of(pool, p->principal, 0); box != NULL;
         box = pool_next_of(box)) {
        /* A box whose row is being removed is gone already. */
        if (!is_ours(p, box) || is_ending(box) || box->state == POOL_FORGETTING)
            continue;
        if (count == cap) {
            cap = cap > 0 ? 2 * cap : 64;
            found = xrealloc(found, cap * sizeof(*found));
        }
        found[count++] = box;
    }
    if (count > 0)
        qsort(found, count, sizeof(*found), by_lease);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "sandboxes");
    for (size_t i = 0; i < count; i++) {
        json_begin_obj(&o, NULL);
        provisioner_put_sandbox(&o, ex, found[i]->sandbox_id, found[i], status_of(p, found[i]));
        json_end(&o);
    }
    json_end(&o);
    json_put_u64(&o, "count", count);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}
