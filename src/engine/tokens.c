/* tokens.c - see tokens.h. A token is in the table from the moment its row is on the disk until the row is gone. One that is
 * revoked is refused at once, whatever the disk says; it stays in the list until its row is gone, so that a failure is seen and
 * can be tried again. */
#include "engine/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/sha256.h"
#include "base/str.h"
#include "engine/internal.h"

enum { HASH_LEN = 32, HASH_TEXT = 2 * HASH_LEN + 1 };

static const char prefix[] = "spt_";

static_assert(sizeof(prefix) - 1 + 2 * HASH_LEN == ENGINE_TOKEN_LEN, "length of a token");

struct token {
    struct engine_token t;
    char hash[HASH_TEXT];
    struct map_node by_hash;
    struct map_node by_principal;
    struct list_node link;
    struct rt_timer expiry;
    struct engine *engine;
};

/* A principal that has no token, or will soon have none. */
struct named {
    uint64_t principal;
    char name[CONFIG_NAME_MAX + 1];
    struct map_node node;
    struct list_node link;
};

struct tokens {
    struct map names; /* of `named` */
    struct list named;
    struct map by_hash;
    struct map by_principal;
    struct list list;
    unsigned coming; /* being written for the first time */
    void (*on_lost)(void *ctx, uint64_t principal);
    void *ctx;
};

/* --- the table --- */

static void drop(struct engine *e, struct token *k)
{
    map_remove(&e->tokens->by_hash, &k->by_hash);
    map_remove(&e->tokens->by_principal, &k->by_principal);
    list_remove(&e->tokens->list, &k->link);
    rt_timer_cancel(e->rt, &k->expiry);
    free(k);
}

void tokens_init(struct engine *e)
{
    e->tokens = xcalloc(1, sizeof(*e->tokens));
    map_init(&e->tokens->by_hash, 64);
    map_init(&e->tokens->by_principal, 64);
    list_init(&e->tokens->list);
    map_init(&e->tokens->names, 64);
    list_init(&e->tokens->named);
}

void tokens_fini(struct engine *e)
{
    struct list_node *n;

    while (!list_is_empty(&e->tokens->list))
        drop(e, container_of(list_first(&e->tokens->list), struct token, link));
    while ((n = list_pop_front(&e->tokens->named)) != NULL)
        free(container_of(n, struct named, link));
    map_fini(&e->tokens->names);
    map_fini(&e->tokens->by_hash);
    map_fini(&e->tokens->by_principal);
    free(e->tokens);
}

static uint64_t now_ms(const struct engine *e)
{
    return rt_stored_at(e->rt, rt_now(e->rt));
}

static bool is_over(const struct engine *e, const struct token *k)
{
    return k->t.is_revoked || (k->t.expires_ms != 0 && now_ms(e) >= k->t.expires_ms);
}

static void hash_of(const char *secret, char ret[HASH_TEXT])
{
    unsigned char digest[HASH_LEN];
    struct sha256 s;

    sha256_init(&s);
    sha256_add(&s, secret, strlen(secret));
    sha256_end(&s, digest);
    str_hex(ret, digest, sizeof(digest));
}

static bool is_hash(const struct map_node *node, const void *key)
{
    return str_equal_secret(container_of(node, struct token, by_hash)->hash, key);
}

static bool is_principal(const struct map_node *node, const void *key)
{
    const uint64_t *principal = key;

    return container_of(node, struct token, by_principal)->t.principal == *principal;
}

static bool is_named(const struct map_node *node, const void *key)
{
    const uint64_t *principal = key;

    return container_of(node, struct named, node)->principal == *principal;
}

const struct engine_token *engine_token_find(struct engine *e, const char *secret)
{
    char hash[HASH_TEXT];
    struct map_node *n;
    struct token *k;

    if (list_is_empty(&e->tokens->list) || strlen(secret) != ENGINE_TOKEN_LEN)
        return NULL;
    hash_of(secret, hash);
    n = map_find(&e->tokens->by_hash, hash_str(hash), is_hash, hash);
    k = n != NULL ? container_of(n, struct token, by_hash) : NULL;
    if (k == NULL || is_over(e, k))
        return NULL;
    k->t.used_ms = now_ms(e);
    return &k->t;
}

const char *engine_token_name(const struct engine *e, uint64_t principal)
{
    struct map_node *n =
        map_find(&e->tokens->by_principal, hash_u64(principal), is_principal, &principal);

    if (n != NULL)
        return container_of(n, struct token, by_principal)->t.name;
    n = map_find(&e->tokens->names, hash_u64(principal), is_named, &principal);
    return n != NULL ? container_of(n, struct named, node)->name : NULL;
}

void engine_note_name(struct engine *e, uint64_t principal, const char *name)
{
    struct tokens *t = e->tokens;
    struct named *n;

    if (t->named.len >= ENGINE_TOKENS_MAX ||
        map_find(&t->names, hash_u64(principal), is_named, &principal) != NULL)
        return;
    n = xcalloc(1, sizeof(*n));
    n->principal = principal;
    str_copy_cut(n->name, sizeof(n->name), name);
    map_insert(&t->names, &n->node, hash_u64(principal));
    list_push_back(&t->named, &n->link);
}

const struct engine_token *engine_token_next(const struct engine *e,
                                             const struct engine_token *before)
{
    const struct token *k = before != NULL ? container_of(before, const struct token, t) : NULL;
    struct list_node *n =
        k != NULL ? list_next(&e->tokens->list, &k->link) : list_first(&e->tokens->list);

    return n != NULL ? &container_of(n, struct token, link)->t : NULL;
}

void engine_watch_tokens(struct engine *e, void (*on_lost)(void *ctx, uint64_t principal),
                         void *ctx)
{
    e->tokens->on_lost = on_lost;
    e->tokens->ctx = ctx;
}

/* It is refused already: what its caller has under way is looked at again. */
static void report_lost(struct engine *e, uint64_t principal)
{
    e->reloads++;
    journal_wake(&e->journal);
    if (e->tokens->on_lost != NULL)
        e->tokens->on_lost(e->tokens->ctx, principal);
}

/* --- rows --- */

struct token_write {
    struct store_write write;
    struct engine *engine;
    struct token *token; /* that is made; else `id` goes */
    char id[ENGINE_TOKEN_ID_LEN + 1];
    char secret[ENGINE_TOKEN_LEN + 1];
    engine_token_made *on_made;
    struct revocation *revocation; /* NULL: it has expired */
    void *ctx;
};

static struct token *find_id(struct engine *e, const char *id)
{
    for (struct list_node *n = list_first(&e->tokens->list); n != NULL;
         n = list_next(&e->tokens->list, n)) {
        struct token *k = container_of(n, struct token, link);

        if (strcmp(k->t.id, id) == 0)
            return k;
    }
    return NULL;
}

static void on_expiry(struct rt_timer *timer);

/* It has a row. */
static void add(struct engine *e, struct token *k)
{
    k->engine = e;
    map_insert(&e->tokens->by_hash, &k->by_hash, hash_str(k->hash));
    if (str_is_empty(k->t.bounds.sandbox_id)) /* else it is somebody else's */
        map_insert(&e->tokens->by_principal, &k->by_principal, hash_u64(k->t.principal));
    list_push_back(&e->tokens->list, &k->link);
    if (k->t.expires_ms != 0)
        rt_timer_set(e->rt, &k->expiry, rt_mono_of_stored(e->rt, k->t.expires_ms), on_expiry);
}

bool tokens_load(struct engine *e, const struct store_token *row)
{
    struct token *k = xcalloc(1, sizeof(*k));
    struct engine_bounds *b = &k->t.bounds;
    bool is_good = strlen(row->hash) == HASH_TEXT - 1 &&
                   str_copy(k->t.id, sizeof(k->t.id), row->id) &&
                   str_copy(k->hash, sizeof(k->hash), row->hash) &&
                   str_copy(k->t.name, sizeof(k->t.name), row->name) &&
                   str_copy(b->user, sizeof(b->user), row->user) &&
                   str_copy(b->profile, sizeof(b->profile), row->profile) &&
                   str_copy(b->sandbox_id, sizeof(b->sandbox_id), row->sandbox_id);

    if (!is_good) {
        free(k);
        return false;
    }
    k->t.scopes = row->scopes;
    k->t.principal = row->principal;
    k->t.has_bounds = row->user[0] != '\0' || row->profile[0] != '\0' || row->sandbox_id[0] != '\0';
    k->t.created_ms = row->created_ms;
    k->t.expires_ms = row->expires_ms;
    add(e, k);
    return true;
}

/* --- making one --- */

static void on_made(struct op *op)
{
    struct token_write *w = container_of(op, struct token_write, write.op);
    struct engine *e = w->engine;

    e->tokens->coming--;
    if (op->result == SP_OK) {
        add(e, w->token);
        event_token(e, "token_created", &w->token->t);
        w->on_made(w->ctx, &w->token->t, w->secret, NULL);
    } else {
        free(w->token);
        w->on_made(w->ctx, NULL, NULL, &op->err);
    }
    explicit_bzero(w->secret, sizeof(w->secret));
    free(w);
    engine_op_ended(e);
}

static struct token_write *write_new(struct engine *e, enum store_kind kind)
{
    struct token_write *w = xcalloc(1, sizeof(*w));

    w->engine = e;
    w->write.kind = kind;
    w->write.want_power = true;
    engine_op_begun(e);
    return w;
}

void engine_token_create(struct engine *e, const struct engine_token *t, engine_token_made *on_done,
                         void *ctx)
{
    unsigned char random[HASH_LEN];
    struct token_write *w;
    struct token *k;
    struct err err;
    uint64_t id;

    if (e->tokens->list.len + e->tokens->coming >= ENGINE_TOKENS_MAX) {
        (void) err_set(&err, SP_TOO_MANY_TOKENS, "there are %d tokens: revoke some",
                       ENGINE_TOKENS_MAX);
        on_done(ctx, NULL, NULL, &err);
        return;
    }
    k = xcalloc(1, sizeof(*k));
    w = write_new(e, STORE_PUT_TOKEN);
    k->t = *t;
    rand_secure(&id, sizeof(id));
    str_hex64(k->t.id, id);
    rand_secure(random, sizeof(random));
    memcpy(w->secret, prefix, sizeof(prefix) - 1);
    str_hex(w->secret + sizeof(prefix) - 1, random, sizeof(random));
    explicit_bzero(random, sizeof(random));
    hash_of(w->secret, k->hash);
    k->t.created_ms = now_ms(e);
    w->token = k;
    w->on_made = on_done;
    w->ctx = ctx;
    w->write.u.token = (struct store_token){.id = k->t.id,
                                            .hash = k->hash,
                                            .name = k->t.name,
                                            .scopes = k->t.scopes,
                                            .principal = k->t.principal,
                                            .user = k->t.bounds.user,
                                            .profile = k->t.bounds.profile,
                                            .sandbox_id = k->t.bounds.sandbox_id,
                                            .created_ms = k->t.created_ms,
                                            .expires_ms = k->t.expires_ms};
    e->tokens->coming++;
    store_submit(e->store, &w->write, on_made);
}

/* --- the end --- */

struct revocation {
    engine_token_revoked *on_done;
    void *ctx;
    unsigned count;
    unsigned waiting; /* writes, and one more while they are begun */
    struct err err;   /* the last that failed */
};

static void settle(struct revocation *r)
{
    r->waiting--;
    if (r->waiting > 0)
        return;
    r->on_done(r->ctx, r->count, r->err.code != SP_OK ? &r->err : NULL);
    free(r);
}

static void on_dropped(struct op *op)
{
    struct token_write *w = container_of(op, struct token_write, write.op);
    struct engine *e = w->engine;
    struct token *k = find_id(e, w->id);

    if (op->result == SP_OK && k != NULL) {
        event_token(e, w->revocation != NULL ? "token_revoked" : "token_expired", &k->t);
        if (str_is_empty(k->t.bounds.sandbox_id)) /* its sandboxes are still shown with its name */
            engine_note_name(e, k->t.principal, k->t.name);
        drop(e, k);
    } else if (op->result != SP_OK) {
        log_warn("token.not_removed", LF_STR("token_id", w->id), LF_STR("reason", op->err.msg));
    }
    if (w->revocation != NULL) {
        if (op->result != SP_OK)
            w->revocation->err = op->err;
        settle(w->revocation);
    }
    free(w);
    engine_op_ended(e);
}

static void remove_row(struct engine *e, struct token *k, struct revocation *r)
{
    struct token_write *w = write_new(e, STORE_DROP_TOKEN);

    str_copy_cut(w->id, sizeof(w->id), k->t.id);
    w->revocation = r;
    w->write.u.token.id = w->id;
    store_submit(e->store, &w->write, on_dropped);
}

/* The row of one that cannot be removed now is removed after the next start. */
static void on_expiry(struct rt_timer *timer)
{
    struct token *k = container_of(timer, struct token, expiry);
    struct engine *e = k->engine;

    if (!is_over(e, k)) { /* by less than the rounding of times in rows */
        rt_timer_set(e->rt, timer, rt_after(rt_now(e->rt), NS_PER_MS), on_expiry);
        return;
    }
    if (k->t.is_revoked || e->is_closing)
        return;
    k->t.is_revoked = true;
    report_lost(e, k->t.principal);
    remove_row(e, k, NULL);
}

static bool is_meant(const struct token *k, const char *which)
{
    return strcmp(k->t.id, which) == 0 || strcmp(k->t.name, which) == 0;
}

void engine_token_revoke(struct engine *e, const char *which, engine_token_revoked *on_done,
                         void *ctx)
{
    struct revocation *r = xcalloc(1, sizeof(*r));

    *r = (struct revocation){.on_done = on_done, .ctx = ctx, .waiting = 1};
    /* None leaves the list here: writes end later, from the run queue. */
    for (struct list_node *n = list_first(&e->tokens->list); n != NULL;
         n = list_next(&e->tokens->list, n)) {
        struct token *k = container_of(n, struct token, link);
        bool was_valid = !k->t.is_revoked;

        if (!is_meant(k, which))
            continue;
        r->count++;
        r->waiting++;
        k->t.is_revoked = true;
        rt_timer_cancel(e->rt, &k->expiry);
        remove_row(e, k, r);
        if (was_valid)
            report_lost(e, k->t.principal);
    }
    settle(r);
}
