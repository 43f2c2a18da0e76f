/* away.h - backends that do not answer: how much of the pool their boxes may take. */
#ifndef POOL_AWAY_H
#define POOL_AWAY_H

#include "pool/pool.h"

#define POOL_UNHEARD_OWN_MAX 4 /* boxes with what a caller asked for; they stop no others */

struct profile;
struct slot;

/* Counts of boxes by their backend. */
struct away {
    unsigned unheard[POOL_BACKENDS_MAX];     /* no word on their create, and not known to be gone */
    unsigned unheard_own[POOL_BACKENDS_MAX]; /* the same, made with what a caller asked for */
    unsigned stuck[POOL_BACKENDS_MAX];       /* a destroy has failed */
    unsigned used;                           /* backends that profiles make boxes on */
};

/* No word: what was asked for may have been done, or not. */
bool away_is_silence(int code);
bool away_is_unheard(const struct slot *s); /* counts as such */
/* Adds this box to the counts, or takes it out. */
void away_count(struct pool *p, const struct slot *s, bool is_in);
void away_count_used(struct pool *p); /* after a change of the profiles */
/* No box is made on the backend of this profile; or none for one acquire alone. */
bool away_holds(const struct pool *p, const struct profile *f);
bool away_holds_special(const struct pool *p, const struct profile *f);
/* The backend has given some answer about the box, or a listing that began at this time. */
void away_heard(struct pool *p, struct slot *s);
void away_listed(struct pool *p, unsigned backend, uint64_t started_ns);

#endif
