/* list.c - which boxes are there. Ours are known by their ids; what this process has made or is deleting
 * has its labels in memory; anything else is reported by its id alone, and the pool knows whether a row
 * has it. An answer that is not whole is no listing.
 *
 * Dead boxes of ours that nobody asks to destroy (their row is gone) are deleted when a second listing
 * shows them too. */
#include <stdlib.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/mem.h"
#include "base/str.h"

enum {
    ENTRIES_MAX = 50000,
    STRAYS_AT_ONCE = 16, /* deleted; the next listing shows the rest again */
    REPORTED_MAX = 5,    /* malformed entries; then only how many there were */
};

/* `priv` of the request. */
struct listing {
    struct call call;
    struct remote *remote;
    struct backend_list *request;
    uint64_t number;
    unsigned strays; /* that it has deleted */
};

static struct remote_box *find(struct remote *r, const struct remote_seen *seen, uint64_t *ret_id)
{
    struct remote_box *b = remote_box_named(r, seen->name);

    *ret_id = 0;
    if (!remote_name_is_ours(r, seen->name, ret_id) && b != NULL &&
        remote_is_other(b->uid, seen->uid))
        return NULL; /* somebody else's, under an id that was ours */
    return b;
}

/* A dead box of ours that no destroy is for. */
static void note_stray(struct listing *l, const struct remote_seen *seen, uint64_t id,
                       struct remote_box *b)
{
    if (b == NULL) {
        b = remote_box_add(l->remote, id, seen->name, BOX_DEAD);
        b->is_stray = true;
        b->listing = l->number;
    } else if (b->is_stray && b->entry.state == BOX_DEAD && b->listing < l->number) {
        b->listing = l->number;
        if (l->strays == STRAYS_AT_ONCE)
            return;
        l->strays++;
        log_info("remote.stray", LF_STR("id", seen->name),
                 LF_STR("status", remote_status_name(seen->status)));
        remote_remove_box(b);
    }
}

static void forget_strays(struct listing *l)
{
    const struct list *boxes = &l->remote->boxes.all;
    struct list_node *next;

    for (struct list_node *n = list_first(boxes); n != NULL; n = next) {
        struct remote_box *b = container_of(n, struct remote_box, entry.link);

        next = list_next(boxes, n);
        if (b->is_stray && b->entry.state == BOX_DEAD && b->listing < l->number &&
            list_is_empty(&b->entry.joiners))
            remote_box_drop(b);
    }
}

static bool is_leaving(const struct remote_box *b)
{
    return b != NULL && !b->is_stray &&
           (b->entry.state == BOX_DEAD || b->entry.state == BOX_REMOVING);
}

static struct backend_box *add(struct backend_list *list, size_t cap)
{
    if (list->boxes == NULL)
        list->boxes = xcalloc(cap, sizeof(list->boxes[0]));
    return &list->boxes[list->count++];
}

/* One of ours whose Pod is not known: a box that the pool has is asked, any other is a leftover. */
static void take_absent(struct listing *l, const struct remote_seen *seen, size_t cap, uint64_t id)
{
    struct backend_box *to = add(l->request, cap);

    to->labels.box_id = id;
    to->is_absent = true;
    str_copy_cut(to->labels.instance, sizeof(to->labels.instance), l->remote->instance);
    remote_put_ref(to->ref, seen->name, seen->uid);
}

/* One that is being deleted is there until it is gone, whatever its state is called. */
static bool is_there(const struct remote_box *b, const struct remote_seen *seen)
{
    if (is_leaving(b))
        return true;
    return remote_status_may_run(seen->status) &&
           (b == NULL || !remote_is_other(b->uid, seen->uid));
}

static void take(struct listing *l, const struct remote_seen *seen, size_t cap)
{
    struct remote *r = l->remote;
    struct backend_list *list = l->request;
    struct backend_box *to;
    uint64_t id;
    struct remote_box *b = find(r, seen, &id);

    if (id == 0 && remote_name_is_blank(seen->name))
        return; /* another daemon's */
    if (seen->status == REMOTE_STATUS_NOT_FOUND) {
        if (id != 0 && !is_leaving(b)) /* that may only mean that its Pod cannot be read */
            take_absent(l, seen, cap, id);
        return;
    }
    if (!is_there(b, seen)) {
        if (id != 0 && seen->status != REMOTE_STATUS_TERMINATING)
            note_stray(l, seen, id, b);
        return;
    }
    to = add(list, cap);
    if (b != NULL && b->box.labels.box_id != 0) {
        *to = b->box;
    } else {
        to->labels.box_id = b != NULL ? b->entry.id : id;
        if (to->labels.box_id != 0)
            str_copy_cut(to->labels.instance, sizeof(to->labels.instance), r->instance);
        else
            str_copy_cut(to->labels.sandbox_id, sizeof(to->labels.sandbox_id), seen->name);
    }
    if (!str_is_empty(seen->url))
        str_copy_cut(to->url, sizeof(to->url), seen->url);
    remote_put_ref(to->ref, seen->name, seen->uid);
}

static int read_list(struct listing *l, const struct json *answer, struct err *err)
{
    struct json_walk walk = {.passed = 0};
    const struct json *boxes = json_get(answer, "sandboxes");
    size_t count = json_len(boxes);
    uint64_t said = count;
    size_t bad = 0;

    if (!json_is_arr(boxes))
        return err_set(err, SP_PROTOCOL, "the provisioner's answer is not a list of sandboxes");
    if (json_field_u64(answer, "count", 0, UINT64_MAX, &said, err) != SP_OK || said != count)
        return err_set(err, SP_PROTOCOL,
                       "the provisioner's list has %zu entries and says otherwise: it is not whole",
                       count);
    if (count > ENTRIES_MAX)
        return err_set(err, SP_TOO_BIG, "the provisioner lists %zu boxes: more than %d", count,
                       ENTRIES_MAX);
    for (const struct json *v = json_next(boxes, &walk); v != NULL; v = json_next(boxes, &walk)) {
        struct remote_seen seen;
        struct err why;

        if (remote_read_seen(v, &seen, &why) != SP_OK && ++bad <= REPORTED_MAX)
            log_warn("remote.bad_entry", LF_STR("id", seen.name), LF_STR("reason", why.msg));
        if (!str_is_empty(seen.name)) /* it is there, whatever else is wrong with it */
            take(l, &seen, count);
    }
    if (bad > REPORTED_MAX)
        log_warn("remote.bad_entries", LF_U64("count", bad), LF_U64("of", count));
    forget_strays(l);
    return SP_OK;
}

static void on_listed(struct op *op)
{
    struct listing *l = container_of(op, struct listing, call.op);
    struct backend_list *r = l->request;
    struct json_doc *doc = NULL;
    struct err err;
    int rc = SP_OK;

    if (remote_call_word(&l->call, &err) != REMOTE_DONE)
        rc = err.code == SP_NOT_FOUND ? SP_BACKEND_FAILED : err.code;
    if (rc == SP_OK) {
        doc = remote_call_json(&l->call, &err);
        rc = doc != NULL ? read_list(l, json_root(doc), &err) : SP_PROTOCOL;
    }
    (void) json_doc_free(doc);
    if (rc != SP_OK)
        backend_list_fini(r);
    r->priv = NULL;
    closing_finish(&l->remote->closing, &r->op, rc, &err);
    call_fini(&l->call);
    free(l);
}

static void on_cancel(struct op *op)
{
    struct listing *l = container_of(op, struct backend_list, op)->priv;

    op_cancel(&l->call.op);
}

void remote_list(struct backend *backend, struct backend_list *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct remote *remote = remote_of(backend);
    struct listing *l = xcalloc(1, sizeof(*l));

    op_begin(&r->op, &remote->loop->rt, &remote->closing.ops, deadline_ns, on_cancel, on_done);
    r->boxes = NULL;
    r->count = 0;
    r->priv = l;
    l->remote = remote;
    l->request = r;
    l->number = ++remote->listing;
    remote_call_init(remote, &l->call, "GET", "/api/sandboxes");
    l->call.http.response_max = REMOTE_LIST_MAX;
    remote_call_start(&l->call, remote->list_ns, on_listed);
}
