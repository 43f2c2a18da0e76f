/* hibernate_mark.c - a hibernated sandbox comes back: an acquire of its id is to get a box that is made from its snapshot. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/hibernate.h"
#include "engine/internal.h"

#define RETRY_NS NS_PER_S

static const char *unlisted_cause(const struct engine_backend *b)
{
    return b->has_late_sides
               ? "the disk does not answer: what is kept of hibernated sandboxes is not read yet"
               : "the backend has not shown yet whether the sandbox is hibernated";
}

bool hibernate_lacks(struct engine *e, unsigned profile, char *dst, size_t cap)
{
    const struct pool_profile *p = pool_profile(e->pool, profile);
    const struct engine_backend *b = &e->backends[p->backend];

    if ((!p->want_hibernate && !p->is_durable) || b->ops->snapshots == NULL || b->has_snapshots)
        return false;
    str_copy_cut(dst, cap, unlisted_cause(b));
    return true;
}

static bool is_any_unlisted(const struct engine *e)
{
    for (unsigned i = 0; i < e->backend_count; i++)
        if (e->backends[i].ops->snapshots != NULL && !e->backends[i].has_snapshots)
            return true;
    return false;
}

/* Its files may be in a snapshot that was not shown yet: of the profile's backend, or of any when it is known that the last box
 * became one. */
static bool is_unlisted(struct engine *e, const struct pool_acquire *a)
{
    if (a->profile >= POOL_PROFILES_MAX || a->thread[0] == '\0' || !is_any_unlisted(e))
        return false;
    if (pool_find_past(e->pool, a->sandbox_id, NULL, NULL) == POOL_END_HIBERNATED)
        return true;
    return (pool_profile(e->pool, a->profile)->want_hibernate ||
            pool_profile(e->pool, a->profile)->is_durable) &&
           !profiles_backend(e, a->profile)->has_snapshots;
}

/* Its box ended while a snapshot was made of it, which may still become whole. */
static bool is_being_made(struct engine *e, const struct pool_acquire *a)
{
    enum pool_end end;

    if (list_is_empty(&e->hibernate.running) || !fx_hibernate_runs(e, a->sandbox_id))
        return false;
    end = pool_find_past(e->pool, a->sandbox_id, NULL, NULL);
    return end != POOL_END_DESTROYED && end != POOL_END_RELEASED;
}

bool hibernate_concerns(struct engine *e, const struct pool_acquire *a)
{
    return engine_hibernated_find(e, a->sandbox_id) != NULL || is_unlisted(e, a) ||
           is_being_made(e, a);
}

void hibernate_refuse(struct engine *e, struct req_id req, int code, const char *reason)
{
    struct engine_call *call = engine_call_find(e, req);
    struct pool_fx fx = {.kind = POOL_FX_REPLY, .req = req};

    fx.u.reply.code = code;
    fx.u.reply.retry_after_ns = code == SP_BACKEND_UNAVAILABLE ? RETRY_NS : 0;
    str_copy_cut(fx.reason, sizeof(fx.reason), reason);
    if (call != NULL)
        engine_call_end(e, call, &fx);
}

/* As for a box that is bound to the id. */
static int check(const struct pool_acquire *a, const struct engine_call *call,
                 const struct snapshot *s, const char *profile)
{
    if (strcmp(a->user, s->user) != 0 || strcmp(a->thread, s->thread) != 0)
        return SP_OWNER_CONFLICT;
    if (a->principal != s->principal && !a->is_operator)
        return SP_FORBIDDEN;
    if ((a->is_profile_named && strcmp(profile, s->profile) != 0) ||
        (call->extras != NULL && call->extras->snapshot != NULL))
        return SP_SPEC_CONFLICT;
    return SP_OK;
}

static void add_snapshot(struct engine_call *call, const struct snapshot *s)
{
    struct backend_extras extras = {0};
    struct backend_extras *all;
    char hex[17];

    if (call->extras != NULL)
        extras = *call->extras;
    str_hex64(hex, s->id);
    extras.snapshot = hex;
    all = backend_extras_copy(&extras);
    free(call->extras);
    call->extras = all;
}

static void mark(struct engine *e, struct engine_call *call, struct pool_acquire *a,
                 const struct snapshot *s, bool has_box)
{
    add_snapshot(call, s);
    if (call->metadata == NULL && !has_box && !str_is_empty(s->metadata)) {
        call->kept_metadata = xstrdup(s->metadata);
        call->metadata = call->kept_metadata;
    }
    if (!call->pending_node.is_linked) {
        str_copy_cut(call->sandbox_id, sizeof(call->sandbox_id), a->sandbox_id);
        map_insert(&e->pending, &call->pending_node, hash_str(call->sandbox_id));
    }
    special_mark(e, call, a);
    call->profile = a->profile;
    call->restored_with = a->made_with;
    a->is_restored = true;
    a->generation = s->generation;
}

/* Also while the id has a box: that may fail to start, or be found dead, and who waits for it is then to get one from the
 * snapshot. */
bool hibernate_mark(struct engine *e, struct pool_event *ev)
{
    struct pool_acquire *a = &ev->u.acquire;
    struct engine_call *call = engine_call_find(e, ev->req);
    struct engine_snapshot *s = engine_hibernated_find(e, a->sandbox_id);
    bool has_box = pool_find_sandbox(e->pool, a->sandbox_id) != NULL;
    int profile;
    int code;

    if (call == NULL)
        return true;
    if (s == NULL && is_unlisted(e, a) && !has_box) {
        hibernate_refuse(e, ev->req, SP_BACKEND_UNAVAILABLE,
                         unlisted_cause(profiles_backend(e, a->profile)));
        return false;
    }
    if (s == NULL && !has_box && is_being_made(e, a)) {
        hibernate_refuse(
            e, ev->req, SP_BACKEND_UNAVAILABLE,
            "the sandbox has just ended, and its files are still being kept: try again");
        return false;
    }
    if (s == NULL)
        return true;
    code = check(a, call, &s->info, profiles_name(e, a->profile));
    if (code != SP_OK && has_box)
        return true; /* the pool knows better */
    if (code != SP_OK) {
        hibernate_refuse(e, ev->req, code, sp_error_info(code)->text);
        return false;
    }
    profile = pool_profile_index(e->pool, s->info.profile);
    if (profile >= 0 && !pool_profile(e->pool, (unsigned) profile)->is_retired)
        a->profile = (unsigned) profile;
    if (!engine_snapshot_fits(e, s, a->profile)) {
        hibernate_refuse(e, ev->req, SP_SPEC_CONFLICT,
                         "the sandbox is hibernated at another backend than its profile has now");
        return false;
    }
    mark(e, call, a, &s->info, has_box);
    share_touch(e, s);
    return true;
}
