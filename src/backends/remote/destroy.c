/* destroy.c - the end of a box, whoever asks for it: deleted, then looked for, again and again until the
 * provisioner says that it is gone. One removal per box at a time, and everybody who wants the box gone
 * is notified of its end. A caller that leaves does not stop it. */
#include <stdlib.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"

enum removal_step {
    REMOVAL_IDENTIFIES, /* only under a public id: somebody else may have given it to another box */
    REMOVAL_DELETES,
    REMOVAL_ASKS,  /* GET .../presence, whether it is gone */
    REMOVAL_LOOKS, /* the same, of a provisioner without presence */
    REMOVAL_PAUSES,
    REMOVAL_ENDS,
    REMOVAL_STEP_COUNT
};

struct removal {
    enum removal_step step;
    int result;
    struct call call;
    struct remote_pause pause;
    struct remote *remote;
    struct remote_box *box;
    uint64_t deadline_ns;
    uint64_t away_ns; /* a provisioner that cannot be reached until then is away */
    struct err err;   /* why it is not gone yet */
    bool was_there;
};

/* A provisioner counts nothing. */
static const char *text_of(const struct removal *m)
{
    if (!m->was_there)
        return "the box was not there";
    if (m->remote->has_no_presence)
        return "the provisioner has deleted the box; it does not say when its Pod has ended";
    return "the provisioner has deleted the box and says that it is gone";
}

static void tick(struct removal *m);

static void go(struct removal *m, enum removal_step step)
{
    m->step = step;
    tick(m);
}

static void end(struct removal *m)
{
    struct remote *r = m->remote;
    struct remote_box *b = m->box;
    int rc = m->result;
    struct list removers;
    struct list joiners;
    struct backend_released released = {.text = ""};

    if (rc != SP_OK)
        log_warn("remote.remove_failed", LF_HEX("box", b->entry.id), LF_STR("id", b->name),
                 LF_STR("reason", m->err.msg));
    list_move(&b->entry.removers, &removers);
    list_move(&b->entry.joiners, &joiners);
    if (rc == SP_OK)
        remote_box_drop(b);
    else
        boxes_set(&b->entry, BOX_DEAD); /* the next destroy tries again */
    str_copy_cut(released.text, sizeof(released.text), text_of(m));
    boxes_removed(&removers, rc, rc != SP_OK ? &m->err : NULL, &released);
    waiter_resume_all(&joiners);
    call_fini(&m->call);
    free(m);
    closing_settle(&r->closing);
}

static void gone(struct removal *m)
{
    if (!m->box->was_never_made)
        remote_gone_note(m->remote, m->box);
    m->result = SP_OK;
    go(m, REMOVAL_ENDS);
}

static void give_up(struct removal *m)
{
    m->result = m->err.code;
    go(m, REMOVAL_ENDS);
}

/* Another box has its id since. Only under a public id: those with our prefix are all ours. */
static bool is_replaced(const struct removal *m, const char *uid)
{
    uint64_t id;

    return remote_is_other(m->box->uid, uid) && !remote_name_is_ours(m->remote, m->box->name, &id);
}

static void start_over(struct removal *m)
{
    uint64_t id;
    bool is_sure = str_is_empty(m->box->uid) || remote_name_is_ours(m->remote, m->box->name, &id);

    go(m, is_sure ? REMOVAL_DELETES : REMOVAL_IDENTIFIES);
}

/* --- again and again --- */

static void on_paused(struct op *op)
{
    struct removal *m = container_of(op, struct removal, pause.op);

    if (m->remote->closing.is_closing || rt_now(&m->remote->loop->rt) >= m->deadline_ns)
        give_up(m);
    else
        start_over(m);
}

/* --- is it gone --- */

static void on_looked(struct op *op)
{
    struct removal *m = container_of(op, struct removal, call.op);
    enum remote_word word = remote_call_word(&m->call, &m->err);
    struct remote_seen seen;

    if (word == REMOTE_MISSING) {
        gone(m);
        return;
    }
    if (word == REMOTE_DONE && remote_call_seen(&m->call, m->box->name, &seen, &m->err) == SP_OK) {
        if (seen.status == REMOTE_STATUS_NOT_FOUND || is_replaced(m, seen.uid)) {
            gone(m);
            return;
        }
        (void) err_set(&m->err, SP_BACKEND_FAILED, "deleted, but the provisioner says it is %s",
                       remote_status_name(seen.status));
    }
    go(m, REMOVAL_PAUSES);
}

static void look(struct removal *m)
{
    remote_call_name(m->remote, &m->call, "GET", m->box->name, "");
    remote_call_start(&m->call, m->remote->get_ns, on_looked);
}

/* {"sandbox_id", "exists", "container_id"}: true when it says that nothing of ours is there. */
static bool is_absent(struct removal *m)
{
    struct json_doc *doc = remote_call_json(&m->call, &m->err);
    const struct json *v = doc != NULL ? json_root(doc) : NULL;
    const struct json *exists = json_get(v, "exists");
    const char *name = json_str(json_get(v, "sandbox_id"));
    const char *uid = json_str(json_get(v, "container_id"));
    bool is_good = json_is_bool(exists) && name != NULL && strcmp(name, m->box->name) == 0;
    bool is_gone = is_good && (!json_bool(exists) || is_replaced(m, uid != NULL ? uid : ""));

    if (doc != NULL && !is_good)
        (void) err_set(&m->err, SP_PROTOCOL,
                       "malformed response of the provisioner about presence");
    else if (is_good)
        (void) err_set(&m->err, SP_BACKEND_FAILED, "deleted, but the provisioner still has it");
    (void) json_doc_free(doc);
    return is_gone;
}

static void on_presence(struct op *op)
{
    struct removal *m = container_of(op, struct removal, call.op);
    enum remote_word word = remote_call_word(&m->call, &m->err);

    if (word == REMOTE_MISSING || (word == REMOTE_REFUSED && m->call.http.status == 405)) {
        m->remote->has_no_presence = true;
        go(m, REMOVAL_LOOKS);
    } else if (word == REMOTE_DONE && is_absent(m)) {
        gone(m);
    } else {
        go(m, REMOVAL_PAUSES);
    }
}

static void ask_presence(struct removal *m)
{
    remote_call_name(m->remote, &m->call, "GET", m->box->name, "/presence");
    remote_call_start(&m->call, m->remote->get_ns, on_presence);
}

/* --- the delete --- */

static void on_deleted(struct op *op)
{
    struct removal *m = container_of(op, struct removal, call.op);
    enum remote_word word = remote_call_word(&m->call, &m->err);

    FAULT_POINT("remote.after_remove");
    m->was_there = m->was_there || word == REMOTE_DONE;
    if (word == REMOTE_REFUSED) /* our key, most likely: somebody must see to it */
        give_up(m);
    else if (word == REMOTE_UNSENT && rt_now(&m->remote->loop->rt) >= m->away_ns)
        give_up(m); /* nobody is there: reported now to those who wait */
    else if (word != REMOTE_DONE && word != REMOTE_MISSING)
        go(m, REMOVAL_PAUSES);
    else
        go(m, m->remote->has_no_presence ? REMOVAL_LOOKS : REMOVAL_ASKS);
}

static void delete_it(struct removal *m)
{
    FAULT_POINT("remote.before_remove");
    remote_call_name(m->remote, &m->call, "DELETE", m->box->name, "");
    remote_call_start(&m->call, m->remote->destroy_ns, on_deleted);
}

static void on_identity(struct op *op)
{
    struct removal *m = container_of(op, struct removal, call.op);
    enum remote_word word = remote_call_word(&m->call, &m->err);
    struct remote_seen seen;

    if (word == REMOTE_DONE && remote_call_seen(&m->call, m->box->name, &seen, &m->err) == SP_OK &&
        is_replaced(m, seen.uid))
        gone(m);
    else if (word == REMOTE_DONE || word == REMOTE_MISSING)
        go(m, REMOVAL_DELETES);
    else if (word == REMOTE_REFUSED)
        give_up(m);
    else
        go(m, REMOVAL_PAUSES);
}

static void identify(struct removal *m)
{
    remote_call_name(m->remote, &m->call, "GET", m->box->name, "");
    remote_call_start(&m->call, m->remote->get_ns, on_identity);
}

static void tick(struct removal *m)
{
    switch (m->step) {
    case REMOVAL_IDENTIFIES:
        identify(m);
        return;
    case REMOVAL_DELETES:
        delete_it(m);
        return;
    case REMOVAL_ASKS:
        ask_presence(m);
        return;
    case REMOVAL_LOOKS:
        look(m);
        return;
    case REMOVAL_PAUSES:
        remote_pause_start(m->remote, &m->pause, on_paused);
        return;
    case REMOVAL_ENDS:
        end(m);
        return;
    case REMOVAL_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

void remote_remove_box(struct remote_box *b)
{
    struct remote *r = b->remote;
    struct removal *m = xcalloc(1, sizeof(*m));

    assert(b->entry.state == BOX_RUNNING || b->entry.state == BOX_DEAD);
    boxes_set(&b->entry, BOX_REMOVING);
    m->remote = r;
    m->box = b;
    rt_refresh(&r->loop->rt);
    m->deadline_ns = rt_after(rt_now(&r->loop->rt), REMOTE_REMOVE_NS);
    m->away_ns = rt_after(rt_now(&r->loop->rt), REMOTE_AWAY_NS);
    if (b->was_never_made)
        gone(m);
    else
        start_over(m);
}

/* --- destroy --- */

/* NULL: another box, which is not to be destroyed, has been made under its name since. */
static struct remote_box *find_or_add(struct remote *remote, const struct backend_box *box)
{
    struct remote_box *b = remote_box_find(remote, box->labels.box_id);
    char name[REMOTE_NAME_MAX + 1];
    char uid[REMOTE_UID_MAX + 1];

    if (b == NULL) {
        remote_find_name(remote, box, name, uid);
        if (remote_box_named(remote, name) != NULL)
            return NULL;
        b = remote_box_add(remote, box->labels.box_id, name, BOX_DEAD);
        str_copy_cut(b->uid, sizeof(b->uid), uid);
    }
    if (!str_is_empty(box->life))
        str_copy_cut(b->box.life, sizeof(b->box.life), box->life);
    b->is_stray = false;
    return b;
}

void remote_destroy(struct backend *backend, struct backend_destroy *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *))
{
    struct remote *remote = remote_of(backend);
    struct remote_box *b = find_or_add(remote, &r->box);

    if (b == NULL) {
        op_begin(&r->op, &remote->loop->rt, &remote->closing.ops, deadline_ns, NULL, on_done);
        str_copy_cut(r->released.text, sizeof(r->released.text), "the box was not there");
        closing_finish(&remote->closing, &r->op, SP_OK, NULL);
        return;
    }
    boxes_destroy(&b->entry, r, deadline_ns, on_done);
    /* One being made is deleted when that has ended; one being deleted, soon. */
    if (b->entry.state == BOX_RUNNING || b->entry.state == BOX_DEAD)
        remote_remove_box(b);
}
