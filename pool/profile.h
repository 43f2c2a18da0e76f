/* profile.h - the run-time state of a profile: its lists, counts and failures. */
#ifndef POOL_PROFILE_H
#define POOL_PROFILE_H

#include "base/list.h"
#include "pool/box.h"
#include "pool/pool.h"
#include "pool/waiter.h"

struct profile {
    struct pool_profile conf;
    struct list blank[BLANK_KIND_COUNT];
    struct list round[LINE_COUNT]; /* groups; the first is served next */
    struct list queue;             /* all of them, the oldest first */
    unsigned by_state[POOL_STATE_COUNT];
    unsigned making; /* will be blank: not bound, and INTENT to STARTING or unseen blank */
    unsigned waiting[LINE_COUNT]; /* queued, joined ones not counted */
    unsigned flying;              /* being made for one acquire: bound, and INTENT or CREATING */
    unsigned landing;             /* the same, STARTING */
    unsigned verifying;           /* blank boxes that are checked before somebody gets them */
    unsigned meant;               /* waiting acquires of this profile, wherever they wait: they keep
                                   * its index in use */
    double arrivals;              /* decayed count */
    uint64_t arrivals_ns;
    uint64_t provision_ns;
    enum pool_mode mode; /* of this profile alone: mode_of() has what counts */
    bool want_parked_gone;
    char mode_text[POOL_REASON_MAX + 1];
    unsigned failures;
    bool is_open;
    bool is_away; /* the last listing of its backend failed */
    bool is_surplus;
    uint64_t surplus_ns; /* since when */
    uint64_t retry_ns;
    uint64_t failed_ns; /* the last time, as `reason` says */
    char reason[POOL_REASON_MAX + 1];
    uint64_t warm_hits;
    uint64_t cold_starts;
};

#endif
