/* sandbox.h - sandboxes, snapshots of their files, what they cost: calls to the daemon that wait for its answer.
 *
 * An `id` is a sandbox_id, "box:" and a box_id (this very box, never one that has replaced it), or "thread:user/thread". A
 * `generation` that is not 0 refuses the call (SP_STALE_GENERATION) when the id belongs to a newer box. */
#ifndef SANDPOOL_SANDBOX_H
#define SANDPOOL_SANDBOX_H

#include "sandpool/client.h"

/* As the daemon saw it at one moment; "" is what it does not have. */
struct sp_sandbox {
    char sandbox_id[65];
    uint64_t generation;
    char box_id[17];
    char state[16]; /* "leased", "parked", ... */
    char profile[65];
    char user_id[129];
    char thread_id[129];
    char sandbox_url[193];
    char created_at[32]; /* "2026-01-02T03:04:05.678Z" */
    char expires_at[32];
    double ends_in_s; /* when time alone ends it; below 0: never */
    char ends_by[32]; /* by which of its limits */
    bool is_paused;
    bool is_alive_known; /* what the backend said, if it was asked */
    bool is_alive;
};

int sp_sandbox_get(struct sp_client *c, const char *id, bool want_alive, struct sp_sandbox *ret,
                   struct sp_failure *failure);

/* NULL: any. */
struct sp_sandbox_filter {
    const char *state;
    const char *profile;
    const char *user_id;
    const char *thread_id;
};
/* Each that this caller may see, the oldest first; false from on_sandbox ends it, which is no failure. `filter` may be NULL. */
int sp_sandbox_list(struct sp_client *c, const struct sp_sandbox_filter *filter,
                    bool (*on_sandbox)(void *ctx, const struct sp_sandbox *s), void *ctx,
                    struct sp_failure *failure);

/* In these `ret` may be NULL. */

/* Pushes the end of the lease to `ttl_s` from now; 0: the profile's. */
int sp_renew(struct sp_client *c, const char *id, uint64_t generation, uint64_t ttl_s,
             struct sp_sandbox *ret, struct sp_failure *failure);
/* Its processes stand still until sp_resume() or the next call that needs it. The lease goes on. */
int sp_pause(struct sp_client *c, const char *id, uint64_t generation, struct sp_sandbox *ret,
             struct sp_failure *failure);
int sp_resume(struct sp_client *c, const char *id, uint64_t generation, struct sp_sandbox *ret,
              struct sp_failure *failure);
/* Returns when it is gone; with want_quick, when it is certain to go. */
int sp_destroy(struct sp_client *c, const char *id, uint64_t generation, bool want_quick,
               struct sp_failure *failure);

/* --- files of a sandbox, kept; sp_acquire() with a snapshot_id makes a box from them --- */

struct sp_snapshot {
    char snapshot_id[17];
    char name[129];
    char profile[65];
    char parent[17]; /* the snapshot that its box was made from */
    char sandbox_id[65];
    char user_id[129];
    char thread_id[129];
    char created_at[32];
    char last_used_at[32];
    uint64_t size_bytes;
    uint64_t layers; /* 0: not known */
    char digest[80];
};

/* The sandbox stands still for a moment and goes on. `name` and `metadata_json` may be NULL. Takes up to ten minutes. */
int sp_snapshot_create(struct sp_client *c, const char *id, const char *name,
                       const char *metadata_json, struct sp_snapshot *ret,
                       struct sp_failure *failure);
int sp_snapshot_get(struct sp_client *c, const char *snapshot_id, struct sp_snapshot *ret,
                    struct sp_failure *failure);
/* As sp_sandbox_list(). */
int sp_snapshot_list(struct sp_client *c,
                     bool (*on_snapshot)(void *ctx, const struct sp_snapshot *s), void *ctx,
                     struct sp_failure *failure);
/* Sandboxes that were made from it stay as they are. */
int sp_snapshot_delete(struct sp_client *c, const char *snapshot_id, struct sp_failure *failure);

/* --- copies of a sandbox --- */

struct sp_fork {
    size_t count;               /* how many */
    const char *const *threads; /* their threads, `count` of them; NULL: nobody finds them again */
    const char *user_id;        /* NULL: that of the source */
    bool has_wait;
    uint64_t wait_ms; /* with has_wait; else the daemon's default */
    uint64_t ttl_s;   /* 0: the profile's */
    uint64_t idle_timeout_s;
    const char *metadata_json; /* NULL: that of the source */
    const struct sp_env *envs;
    size_t env_count;
};

/* One of the copies. */
struct sp_branch {
    struct sp_lease lease;     /* with failure.code SP_OK */
    struct sp_failure failure; /* why there is none */
};

/* Boxes with the files of one, each with its own result in ret[0] to ret[count - 1]; those that were made are the caller's also when
 * others failed. A negative code: there is none. Takes up to ten minutes. */
int sp_fork(struct sp_client *c, const char *id, const struct sp_fork *f, struct sp_branch *ret,
            struct sp_failure *failure);

/* --- what it costs: answers as the daemon sent them, in JSON, from malloc --- */

/* Of a lease; `profile` NULL: default; duration_s 0: an hour. */
int sp_quote(struct sp_client *c, const char *profile, uint64_t duration_s, char **ret_json,
             struct sp_failure *failure);

struct sp_usage {
    const char *group_by; /* "user,profile"; NULL: the daemon's default */
    bool want_intervals;  /* each interval instead of sums */
    const char *user_id;  /* NULL in these: any */
    const char *thread_id;
    const char *sandbox_id;
    const char *profile;
    const char *principal;
    uint64_t since_ms; /* since 1970; 0: all */
    uint64_t until_ms; /* likewise */
    uint64_t limit;    /* of a page of intervals; 0: the daemon's default */
    const char *cursor;
};
/* `usage` may be NULL. */
int sp_usage(struct sp_client *c, const struct sp_usage *usage, char **ret_json,
             struct sp_failure *failure);

#endif
