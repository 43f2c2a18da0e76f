/* sandboxes.c - looking at boxes: one, or a page of many. Answers come from memory; only
 * ?alive=1 and ?stats=1 ask the backend. A caller that is no operator sees its own boxes only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "engine/holders.h"

enum {
    PAGE_DEFAULT = 100,
    PAGE_MAX = 1000,
    PAGE_BYTES = 512 * 1024, /* about */
    BOX_BYTES = 512,         /* of a box without its metadata, about */
    LOOK_MAX = 10000,
    HIBERNATED_SHIFT = 63, /* of a cursor: the boxes have been shown, hibernated sandboxes follow */
    LOOK_BYTES = 24,       /* of an answer take as long to make as a look at a box, about */
};

#define HIBERNATED "hibernated"

/* Its first lease is not committed: it may yet become somebody else's. */
static bool is_open(const struct pool_box *box)
{
    return box->state == POOL_LEASING && box->parked_ns == 0;
}

static bool may_see(const struct api_caller *caller, const struct pool_box *box)
{
    return caller->is_operator ||
           (!str_is_empty(box->sandbox_id) && box->principal == caller->principal && !is_open(box));
}

/* --- one --- */

/* The backend may not know it yet, so its answer that the box is dead would be wrong. */
static bool is_being_made(const struct pool_box *box)
{
    return box->state == POOL_INTENT || box->state == POOL_CREATING;
}

struct get_call {
    struct api *api;
    struct http_exchange *ex; /* NULL: the caller has gone */
    struct api_caller caller;
    struct box_id box;
    bool want_alive;
    bool want_stats;
    enum pool_verdict verdict; /* what was found out about the box, as far as somebody was asked */
    bool answers;
    bool is_counted;
    struct backend_counters counters;
};

static void put_count(struct json_out *o, const char *key, struct backend_count c)
{
    if (c.is_known)
        json_put_u64(o, key, c.n);
    else
        json_put_null(o, key);
}

static void put_stats(struct json_out *o, const struct get_call *c)
{
    struct backend_count cpu_ms = c->counters.cpu_us;

    cpu_ms.n /= 1000;
    if (!c->is_counted) {
        json_put_null(o, "stats");
        return;
    }
    json_begin_obj(o, "stats");
    put_count(o, "cpu_ms", cpu_ms);
    put_count(o, "memory_bytes", c->counters.memory);
    put_count(o, "net_in_bytes", c->counters.net_in);
    put_count(o, "net_out_bytes", c->counters.net_out);
    put_count(o, "disk_read_bytes", c->counters.disk_read);
    put_count(o, "disk_write_bytes", c->counters.disk_write);
    json_end(o);
}

static void reply_box(const struct get_call *c, const struct pool_box *box)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    api_put_box(&o, c->api, &c->caller, box);
    json_put_words(&o, "network_allow", engine_allowed(c->api->engine, box));
    if (c->want_alive && (c->verdict == POOL_UNKNOWN || c->verdict == POOL_SILENT))
        json_put_null(&o, "alive");
    else if (c->want_alive)
        json_put_bool(&o, "alive", c->verdict == POOL_ALIVE);
    if (c->want_alive)
        json_put_bool(&o, "answers", c->answers);
    if (c->want_stats)
        put_stats(&o, c);
    json_end(&o);
    http_reply_json(c->ex, 200, &o);
}

/* All who were to be asked have answered. */
static void end_get(struct get_call *c)
{
    const struct pool_box *box = pool_find_box(engine_pool(c->api->engine), c->box);

    /* It may have changed hands while it was asked. */
    if (c->ex != NULL && box != NULL && may_see(&c->caller, box))
        reply_box(c, box);
    else if (c->ex != NULL)
        http_reply_error(c->ex, SP_NOT_FOUND, "the sandbox went away meanwhile", 0);
    free(c);
}

static void on_counted(void *ctx, const struct backend_counters *counters)
{
    struct get_call *c = ctx;

    c->is_counted = counters != NULL;
    if (counters != NULL)
        c->counters = *counters;
    end_get(c);
}

/* A backend that counts nothing has said so: nothing is known. */
static void count_box(struct get_call *c)
{
    const struct pool_box *box = pool_find_box(engine_pool(c->api->engine), c->box);

    if (!c->want_stats || c->ex == NULL || box == NULL || is_being_made(box)) {
        end_get(c);
    } else if (engine_can_count(c->api->engine, box)) {
        engine_count_box(c->api->engine, c->box, on_counted, c);
    } else {
        c->is_counted = true;
        end_get(c);
    }
}

static void on_answered(void *ctx, bool answers)
{
    struct get_call *c = ctx;

    c->answers = answers;
    count_box(c);
}

static void on_checked(void *ctx, enum pool_verdict verdict)
{
    struct get_call *c = ctx;
    const struct pool_box *box = pool_find_box(engine_pool(c->api->engine), c->box);

    c->verdict = verdict;
    if (c->ex != NULL && box != NULL && verdict != POOL_DEAD && !str_is_empty(box->url))
        engine_ask_box(c->api->engine, c->box, on_answered, c);
    else
        on_answered(c, false);
}

static void on_get_gone(void *ctx)
{
    struct get_call *c = ctx;

    c->ex = NULL; /* who was asked still answers; end_get() frees */
}

void api_reply_absent(struct http_exchange *ex, const struct api_caller *caller,
                      const char *sandbox_id)
{
    struct api *api = api_of(ex);
    struct pool_fx fx = {.kind = POOL_FX_REPLY};
    uint64_t generation;
    uint64_t principal;

    fx.u.reply.code = SP_NOT_FOUND;
    fx.u.reply.lost = pool_find_past(engine_pool(api->engine), sandbox_id, &generation, &principal);
    if (pool_end_is_loss(fx.u.reply.lost) &&
        (caller->is_operator || principal == caller->principal))
        fx.u.reply.code = SP_SANDBOX_LOST;
    api_reply_failure(ex, &fx);
}

const struct pool_box *api_find_shown(const struct pool *pool, const char *sandbox_id)
{
    const struct pool_box *box = pool_find_sandbox(pool, sandbox_id);

    return box != NULL ? box : pool_find_deleting(pool, sandbox_id);
}

static bool wants(struct http_exchange *ex, const char *what)
{
    char text[8];

    return http_query(ex, what, text, sizeof(text)) && strcmp(text, "1") == 0;
}

void api_get(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    const struct pool *pool = engine_pool(api->engine);
    struct get_call c = {.api = api, .ex = ex, .verdict = POOL_UNKNOWN};
    struct get_call *asking;
    const struct pool_box *box;
    struct box_id id;
    char sandbox_id[POOL_ID_MAX + 1];

    if (!api_path_id(ex, sandbox_id, &id))
        return;
    (void) api_identify(ex, &c.caller); /* the guard has let it in */
    c.want_alive = wants(ex, "alive");
    c.want_stats = wants(ex, "stats");
    box = id.v != 0 ? pool_find_box(pool, id) : api_find_shown(pool, sandbox_id);
    if (box == NULL || !may_see(&c.caller, box)) {
        if (!api_reply_hibernated(ex, api, &c.caller, sandbox_id))
            api_reply_absent(ex, &c.caller, sandbox_id);
        return;
    }
    c.box = box->id;
    if (is_being_made(box) || (!c.want_alive && !c.want_stats)) { /* nobody is asked */
        reply_box(&c, box);
        return;
    }
    asking = xcalloc(1, sizeof(*asking));
    *asking = c;
    http_set_ctx(ex, asking, on_get_gone);
    if (c.want_alive)
        engine_check_box(api->engine, box->id, on_checked, asking);
    else
        count_box(asking);
}

/* --- many --- */

struct filter {
    const struct api *api;
    struct api_caller caller;
    int profile; /* -1: any */
    char state[16];
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1];
    bool has_principal;
    uint64_t principal;
    uint64_t leased_s; /* at least, of leases */
    uint64_t idle_s;
    bool is_leaking; /* only those */
    uint64_t after;  /* order of the last box of the page before */
    size_t at;       /* the pool's place in that order */
    uint64_t limit;
};

static bool is_older(const struct filter *f, uint64_t at_ns, uint64_t seconds)
{
    uint64_t now_ns = rt_now(engine_rt(f->api->engine));

    return now_ns >= at_ns && now_ns - at_ns >= seconds * NS_PER_S;
}

/* The part of a filter that asks who holds it since when. */
static bool matches_holder(const struct filter *f, const struct pool_box *box)
{
    bool is_leased = box->state == POOL_LEASED;

    return (!f->has_principal ||
            (!str_is_empty(box->sandbox_id) && box->principal == f->principal)) &&
           (f->leased_s == 0 || (is_leased && is_older(f, box->leased_ns, f->leased_s))) &&
           (f->idle_s == 0 ||
            (is_leased && box->busy == 0 && is_older(f, pool_active_ns(box), f->idle_s))) &&
           (!f->is_leaking || engine_is_leaking(f->api->engine, box->id));
}

static bool matches(const struct filter *f, const struct pool_box *box)
{
    return may_see(&f->caller, box) && api_covers_box(f->api, &f->caller, box) &&
           (f->profile < 0 || (unsigned) f->profile == box->profile) &&
           (str_is_empty(f->state) || strcmp(f->state, api_state_name(box->state)) == 0) &&
           (str_is_empty(f->user) || strcmp(f->user, box->user) == 0) &&
           (str_is_empty(f->thread) || strcmp(f->thread, box->thread) == 0) &&
           matches_holder(f, box);
}

/* NULL, or what is wrong. */
static const char *decode_holder(struct http_exchange *ex, struct filter *f)
{
    char text[32];

    f->has_principal = http_query(ex, "principal", text, sizeof(text));
    if (f->has_principal && !api_parse_principal(text, &f->principal))
        return "'principal' must be a user id, or 16 hex digits";
    if ((http_query(ex, "min_leased_s", text, sizeof(text)) &&
         !str_parse_u64(text, 1, INT32_MAX, &f->leased_s)) ||
        (http_query(ex, "min_idle_s", text, sizeof(text)) &&
         !str_parse_u64(text, 1, INT32_MAX, &f->idle_s)))
        return "'min_leased_s' and 'min_idle_s' must be a number of seconds from 1";
    f->is_leaking = http_query(ex, "leaking", text, sizeof(text));
    if (f->is_leaking && strcmp(text, "1") != 0)
        return "'leaking' must be 1";
    return NULL;
}

/* NULL, or what is wrong. */
static const char *decode_state(struct http_exchange *ex, struct filter *f)
{
    static const char *const states[] = {"starting", "blank",    "leased",
                                         "parked",   "deleting", HIBERNATED};

    if (!http_query(ex, "state", f->state, sizeof(f->state)))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (strcmp(states[i], f->state) == 0)
            return NULL;
    return "'state' must be starting, blank, leased, parked, deleting or hibernated";
}

static bool decode_filter(struct http_exchange *ex, struct filter *f)
{
    struct api *api = api_of(ex);
    char text[POOL_NAME_MAX + 1];
    const char *problem;

    *f = (struct filter){.api = api, .profile = -1, .limit = PAGE_DEFAULT};
    (void) api_identify(ex, &f->caller);                              /* the guard has let it in */
    (void) http_query(ex, "user_id", f->user, sizeof(f->user));       /* absent: any */
    (void) http_query(ex, "thread_id", f->thread, sizeof(f->thread)); /* absent: any */
    problem = decode_state(ex, f);
    if (http_query(ex, "profile", text, sizeof(text))) {
        f->profile = pool_profile_index(engine_pool(api->engine), text);
        if (f->profile < 0) {
            http_reply_error(ex, SP_INVALID_FIELD, "'profile': there is no such profile", 0);
            return false;
        }
    }
    if (problem == NULL)
        problem = decode_holder(ex, f);
    if (problem != NULL) {
        http_reply_error(ex, SP_INVALID_FIELD, problem, 0);
        return false;
    }
    if ((http_query(ex, "limit", text, sizeof(text)) &&
         !str_parse_u64(text, 1, PAGE_MAX, &f->limit)) ||
        (http_query(ex, "cursor", text, sizeof(text)) &&
         !str_parse_u64(text, 0, UINT64_MAX, &f->after))) {
        http_reply_error(ex, SP_INVALID_FIELD,
                         "'limit' must be 1 to 1000, 'cursor' what next_cursor said", 0);
        return false;
    }
    return true;
}

static const struct pool_box *first_box(const struct pool *pool, struct filter *f)
{
    if (f->after >> HIBERNATED_SHIFT != 0 || strcmp(f->state, HIBERNATED) == 0)
        return NULL;
    return f->caller.is_operator ? pool_first(pool, f->after, &f->at)
                                 : pool_first_of(pool, f->caller.principal, f->after);
}

static const struct pool_box *next_box(const struct pool *pool, struct filter *f,
                                       const struct pool_box *box)
{
    return f->caller.is_operator ? pool_next(pool, &f->at) : pool_next_of(box);
}

static void put_cursor(struct json_out *o, uint64_t order)
{
    char cursor[24];

    (void) snprintf(cursor, sizeof(cursor), "%llu", (unsigned long long) order);
    json_put_str(o, "next_cursor", cursor);
}

/* What a box adds to the page, about. */
static size_t bytes_of(struct api *api, const struct pool_box *box)
{
    const char *metadata = engine_metadata(api->engine, box->id);

    return BOX_BYTES + (metadata != NULL ? strlen(metadata) : 0);
}

/* After the last box; true when there are more. */
static bool put_hibernated(struct json_out *o, struct api *api, const struct filter *f,
                           uint64_t shown, uint64_t *ret_cursor)
{
    uint64_t begin = (uint64_t) 1 << HIBERNATED_SHIFT;
    struct api_hibernated_filter h = {
        .caller = &f->caller,
        .profile = f->profile >= 0
                       ? pool_profile(engine_pool(api->engine), (unsigned) f->profile)->name
                       : NULL,
        .user = f->user,
        .thread = f->thread,
        .after = f->after >= begin ? f->after - begin : 0,
        .left = f->limit > shown ? f->limit - shown : 0};
    bool has_more;

    if ((!str_is_empty(f->state) && strcmp(f->state, HIBERNATED) != 0) || f->has_principal ||
        f->leased_s > 0 || f->idle_s > 0 || f->is_leaking)
        return false;
    has_more = api_list_hibernated(o, api, &h);
    *ret_cursor = begin + h.after;
    return has_more;
}

/* A filter that few boxes pass does not make one answer look at all of them, and long metadata does not
 * make one answer long: the page is short then. */
static void reply_page(struct http_exchange *ex, struct filter *f)
{
    struct api *api = api_of(ex);
    const struct pool *pool = engine_pool(api->engine);
    const struct pool_box *box;
    struct json_out o;
    uint64_t shown = 0;
    uint64_t looked = 0;
    uint64_t last = 0;
    size_t bytes = 0;
    bool has_more;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "sandboxes");
    for (box = first_box(pool, f); box != NULL && looked < LOOK_MAX;
         box = next_box(pool, f, box), looked++) {
        if (matches(f, box)) {
            if (shown == f->limit || bytes >= PAGE_BYTES)
                break;
            shown++;
            bytes += bytes_of(api, box);
            json_begin_obj(&o, NULL);
            api_put_box(&o, api, &f->caller, box);
            json_end(&o);
        }
        last = box->order;
    }
    has_more = box != NULL || put_hibernated(&o, api, f, shown, &last);
    json_end(&o);
    if (has_more)
        put_cursor(&o, last);
    else
        json_put_null(&o, "next_cursor");
    json_end(&o);
    http_reply_json(ex, 200, &o);
    http_add_work(ex, (size_t) looked * LOOK_BYTES);
}

static void on_turn(struct http_exchange *ex)
{
    struct filter *f = http_ctx(ex);

    reply_page(ex, f);
    free(f);
}

/* Many may ask at once: each page is made when there is time for it. */
void api_list(struct http_exchange *ex)
{
    struct filter *f = xcalloc(1, sizeof(*f));

    if (!decode_filter(ex, f)) {
        free(f);
        return;
    }
    http_set_ctx(ex, f, free);
    http_wait_turn(ex, on_turn);
}
