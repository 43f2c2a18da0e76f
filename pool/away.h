/* away.h - backends that do not answer: how much of the pool their boxes may take. */
#ifndef POOL_AWAY_H
#define POOL_AWAY_H

#include "pool/pool.h"

#define POOL_UNKNOWN_OWN_MAX 4 /* boxes made with a caller's extras; they do not block others */

struct profile;
struct slot;

/* Counts of boxes by their backend. */
struct away {
    unsigned unknown[POOL_BACKENDS_MAX];     /* result of their create unknown, and not known to be
                                              * gone */
    unsigned unknown_own[POOL_BACKENDS_MAX]; /* the same, made with a caller's extras */
    unsigned stuck[POOL_BACKENDS_MAX];       /* a destroy has failed */
    unsigned used;                           /* backends that profiles make boxes on */
};

/* No answer: the request may have been executed, or not. */
bool away_is_silence(int code);
bool away_is_unknown(const struct slot *s); /* counts as unknown */
/* Adds this box to the counts, or removes it. */
void away_count(struct pool *p, const struct slot *s, bool is_in);
void away_count_used(struct pool *p); /* after a change of the profiles */
/* No box is made on the backend of this profile; or no special box. */
bool away_holds(const struct pool *p, const struct profile *f);
bool away_holds_special(const struct pool *p, const struct profile *f);
/* The backend has answered something about the box, or a listing that began at this time. */
void away_answered(struct pool *p, struct slot *s);
void away_listed(struct pool *p, unsigned backend, uint64_t started_ns);

#endif
