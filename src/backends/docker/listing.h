/* listing.h - what an engine shows: our containers, and those of other programs. A part of internal.h. */
#ifndef DOCKER_LISTING_H
#define DOCKER_LISTING_H

#include "backend/backend.h"
#include "backend/call.h"
#include "backends/docker/limits.h"
#include "base/json.h"
#include "config/config.h"

struct docker;

/* --- what is there (list.c) --- */

struct docker_found {
    struct backend_box box;
    char name[DOCKER_NAME_MAX + 1];
    char prefix[CONFIG_NAME_MAX + 1];
    char owner[DOCKER_NAME_MAX + 1];
    bool is_running; /* also when it is paused */
    bool is_paused;
};

/* SP_OK: complete. Containers, then owners, then containers of others, where wanted. What has ended without our doing is removed. */
struct docker_list {
    struct op op;
    struct docker *docker;
    uint64_t only; /* a box id; 0: all of this instance */
    uint64_t started_ns;
    size_t doubted;  /* the entry that is asked for again; see docker_ended_add() */
    uint64_t deaths; /* d->ended.count when that began */
    struct call call;
    struct docker_found *found; /* from malloc: docker_list_fini() */
    size_t count;
};

void docker_list_start(struct docker *d, struct docker_list *l, uint64_t deadline_ns,
                       void (*on_done)(struct op *));
void docker_list_fini(struct docker_list *l);
/* found.c: one container as inspect shows it: labels and url. SP_NOT_FOUND: it is not ours. */
MUST_CHECK int docker_read_inspect(const struct docker *d, const struct json *answer,
                                   struct docker_found *ret, struct err *err);

/* As a list shows it. False: it is not ours. */
bool docker_read_entry(const struct docker *d, const struct json *entry, struct docker_found *ret);
/* As inspect shows it. */
void docker_read_state(const struct json *state, struct docker_found *f);

/* --- containers of other programs (foreign.c) --- */

/* Takes the profile's adopt_prefix up, or away. */
void docker_adopt_prepare(struct docker *d, const struct config_profile *p);
void docker_adopt_free(struct docker *d);
/* By its id and ref alone, which rows keep. */
bool docker_is_foreign(const struct backend_box *box);
/* Whether a container of another program is one of ours, by what the configuration says now. */
bool docker_is_adopted(struct docker *d, uint64_t box_id, const char *name);
/* An entry of a list; false when it is none of these. */
bool docker_read_foreign(struct docker *d, const struct json *entry, struct docker_found *ret);
/* What a whole list no longer shows. */
void docker_foreign_keep_up(struct docker_list *l);

#endif
