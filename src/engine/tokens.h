/* tokens.h - bearer tokens of callers on TCP: made, listed and revoked by operators, kept in the store as hashes. A look-up is by
 * the hash of what a caller has sent, so it takes as long whatever that is. Tokens of the same name are the same
 * principal, so that one can be replaced without a pause. */
#ifndef ENGINE_TOKENS_H
#define ENGINE_TOKENS_H

#include "config/config.h"
#include "engine/engine.h"

enum {
    ENGINE_TOKENS_MAX = 4096,
    ENGINE_TOKEN_ID_LEN = 16,
    ENGINE_TOKEN_LEN = 4 + 64, /* "spt_" and 256 bits in hex */
};

/* What a token is good for; any of them together. */
enum {
    ENGINE_SCOPE_READ = 1 << 0,    /* look at everything, as operators see it, change nothing */
    ENGINE_SCOPE_USE = 1 << 1,     /* boxes of its own */
    ENGINE_SCOPE_OPERATE = 1 << 2, /* all boxes and the pool */
};

/* One user, profile or box that a token is bound to; "": any. */
struct engine_bounds {
    char user[POOL_OWNER_MAX + 1];
    char profile[POOL_NAME_MAX + 1];
    char sandbox_id[POOL_ID_MAX + 1];
};

struct engine_token {
    char id[ENGINE_TOKEN_ID_LEN + 1]; /* no secret */
    char name[CONFIG_NAME_MAX + 1];
    unsigned scopes;
    uint64_t principal;
    struct engine_bounds bounds;
    bool has_bounds;
    uint64_t created_ms; /* in the time of rows */
    uint64_t expires_ms; /* 0: never */
    uint64_t used_ms;    /* the last time, since the daemon started; 0: not */
    bool is_revoked;     /* it is refused; that is being stored, or could not be */
};

/* The token that this text is, if it is valid now. Valid until the loop's next turn. */
const struct engine_token *engine_token_find(struct engine *e, const char *secret);
/* The name of a principal that has a token, or had one or came by another way since the daemon started; NULL: it is not known. */
const char *engine_token_name(const struct engine *e, uint64_t principal);
/* It has come by another way than a token: its name is remembered, of a number of them. */
void engine_note_name(struct engine *e, uint64_t principal, const char *name);
/* All of them, by age; NULL: the first, and behind the last. */
const struct engine_token *engine_token_next(const struct engine *e,
                                             const struct engine_token *before);

/* Makes one as described by `t`, of which the id and times that have passed are ignored. on_done() gets it and its secret when it
 * is on the disk; err: why there is none (SP_TOO_MANY_TOKENS). */
typedef void engine_token_made(void *ctx, const struct engine_token *t, const char *secret,
                               const struct err *err);
void engine_token_create(struct engine *e, const struct engine_token *t, engine_token_made *on_done,
                         void *ctx);

/* Revokes those of this id or name: refused from now on. on_done() gets how many, when that is on the disk; with `err` some
 * are valid again after a restart. */
typedef void engine_token_revoked(void *ctx, unsigned count, const struct err *err);
void engine_token_revoke(struct engine *e, const char *which, engine_token_revoked *on_done,
                         void *ctx);

/* `on_lost` comes when a token of the principal was revoked or has expired. One watcher; NULL: none. */
void engine_watch_tokens(struct engine *e, void (*on_lost)(void *ctx, uint64_t principal),
                         void *ctx);

#endif
