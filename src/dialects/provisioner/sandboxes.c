/* sandboxes.c - shows sandboxes. Answers come from the pool's memory; the backend is asked only for
 * a box whose death it would not report by itself. Boxes of other callers are not shown. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/provisioner/internal.h"

enum {
    LIST_PART = 256,              /* boxes in one part of a list */
    LIST_LOOK_BYTES = 24,         /* of an answer take as long to make as a look at a box, about */
    LIST_BYTES_MAX = 1024 * 1024, /* of one part; a box has 1 KB at most */
};

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

/* --- all of them --- */

/* A list of very many is written in parts, each in a turn of the loop in which there is time for it, and no further ahead of
 * its reader than HTTP_HIGH_WATER. A box that is there all the time is in it once; of one that comes or goes meanwhile
 * nothing is said. */
struct listing {
    uint64_t after; /* order of the last box that was looked at */
    uint64_t count;
    struct buf text;
    bool has_some; /* a box is in it */
    bool is_begun; /* the first part is out */
};

static void on_list_gone(void *ctx)
{
    struct listing *l = ctx;

    buf_fini(&l->text);
    free(l);
}

/* A box whose row is being removed is gone already. */
static bool is_listed(const struct provisioner *p, const struct pool_box *box)
{
    return is_ours(p, box) && !is_ending(box) && box->state != POOL_FORGETTING;
}

/* True: that was all. */
static bool put_part(struct listing *l, struct http_exchange *ex)
{
    const struct provisioner *p = provisioner_of(ex);
    const struct pool_box *box = pool_first_of(engine_pool(p->engine), p->principal, l->after);
    struct json_out o;
    struct buf part;

    json_out_init(&o);
    json_begin_arr(&o, NULL);
    for (unsigned i = 0; box != NULL && i < LIST_PART; box = pool_next_of(box), i++) {
        l->after = box->order;
        if (!is_listed(p, box))
            continue;
        json_begin_obj(&o, NULL);
        provisioner_put_sandbox(&o, ex, box->sandbox_id, box, status_of(p, box));
        json_end(&o);
        l->count++;
    }
    json_end(&o);
    buf_init(&part, LIST_BYTES_MAX);
    json_out_finish(&o, &part);
    if (buf_failed(&part))
        l->text.is_failed = true;
    if (!buf_failed(&part) &&
        part.len > 2) { /* without its brackets: it is a piece of a longer one */
        buf_puts(&l->text, l->has_some ? "," : "");
        buf_append(&l->text, part.data + 1, part.len - 2);
        l->has_some = true;
    }
    buf_fini(&part);
    return box == NULL;
}

static void on_list_turn(struct http_exchange *ex);

static void on_list_drain(struct http_exchange *ex)
{
    http_wait_turn(ex, on_list_turn);
}

/* A short list is one piece, with its length. */
static void write_part(struct listing *l, struct http_exchange *ex, bool is_last)
{
    size_t unsent = 0;

    if (is_last && !l->is_begun) {
        http_reply(ex, 200, "application/json", buf_str(&l->text), l->text.len);
        return;
    }
    if (!l->is_begun) {
        l->is_begun = true;
        http_set_drain(ex, on_list_drain);
        http_begin(ex, 200, "application/json");
    }
    unsent = http_write(ex, buf_str(&l->text), l->text.len);
    buf_reset(&l->text);
    if (is_last)
        http_end(ex);
    else if (unsent < HTTP_HIGH_WATER)
        http_wait_turn(ex, on_list_turn);
}

static void on_list_turn(struct http_exchange *ex)
{
    struct listing *l = http_ctx(ex);
    bool is_last = put_part(l, ex);

    if (is_last)
        buf_printf(&l->text, "],\"count\":%llu}", (unsigned long long) l->count);
    if (!buf_failed(&l->text)) {
        write_part(l, ex, is_last);
    } else {
        is_last = true;
        if (l->is_begun)
            http_abort(ex);
        else
            http_reply_error(ex, SP_NO_MEMORY, "not enough memory for the answer", 0);
    }
    http_add_work(ex, (size_t) LIST_PART * LIST_LOOK_BYTES);
    if (is_last)
        on_list_gone(l);
}

void provisioner_list(struct http_exchange *ex)
{
    struct listing *l = xcalloc(1, sizeof(*l));

    buf_init(&l->text, LIST_BYTES_MAX);
    buf_puts(&l->text, "{\"sandboxes\":[");
    http_set_ctx(ex, l, on_list_gone);
    http_wait_turn(ex, on_list_turn);
}
