/* fault.h - named points at which a test build can be made to die as if by kill -9, or to hang.
 *
 * FAULT_POINT("store.before_commit") costs nothing unless the build defines SANDPOOL_FAULTS. Then
 * the environment decides: SANDPOOL_CRASH_AT=store.before_commit dies at the first hit,
 * SANDPOOL_CRASH_AT=store.before_commit:3 at the third. SANDPOOL_HANG_AT=store.before_commit=/a/file
 * hangs there as long as the file exists, and makes /a/file.hit; several are separated by commas. A name that is not in the table does not compile. May be hit from any thread. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* X(arg, name): every point of the tree. */
#define FAULT_TABLE(X, arg)         \
    X(arg, "store.before_commit")   \
    X(arg, "store.after_commit")    \
    X(arg, "copy.made")             \
    X(arg, "copy.paused")           \
    X(arg, "copy.filled")           \
    X(arg, "copy.resumed")          \
    X(arg, "engine.before_create")  \
    X(arg, "engine.after_create")   \
    X(arg, "engine.before_destroy") \
    X(arg, "engine.after_destroy")  \
    X(arg, "pause.before_freeze")   \
    X(arg, "pause.after_freeze")    \
    X(arg, "pause.before_thaw")     \
    X(arg, "pause.after_thaw")      \
    X(arg, "engine.before_reply")   \
    X(arg, "engine.after_reply")    \
    X(arg, "engine.before_listen")  \
    X(arg, "recover.after_load")    \
    X(arg, "recover.after_list")    \
    X(arg, "takeover.old_asked")    \
    X(arg, "takeover.old_offered")  \
    X(arg, "takeover.old_ready")    \
    X(arg, "takeover.old_handed")   \
    X(arg, "takeover.old_shut")     \
    X(arg, "takeover.old_closed")   \
    X(arg, "takeover.old_giving")   \
    X(arg, "takeover.old_given")    \
    X(arg, "takeover.old_done")     \
    X(arg, "takeover.new_asked")    \
    X(arg, "takeover.new_offered")  \
    X(arg, "takeover.new_ready")    \
    X(arg, "takeover.new_given")    \
    X(arg, "takeover.new_served")   \
    X(arg, "takeover.new_ended")    \
    X(arg, "usage.before_sample")   \
    X(arg, "usage.after_sample")    \
    X(arg, "oci.before_run")        \
    X(arg, "oci.after_run")         \
    X(arg, "oci.before_remove")     \
    X(arg, "oci.after_remove")      \
    X(arg, "hibernate.loading")     \
    X(arg, "hibernate.captured")    \
    X(arg, "hibernate.doomed")      \
    X(arg, "hibernate.before_drop") \
    X(arg, "hibernate.before_envs") \
    X(arg, "keep.begun")            \
    X(arg, "keep.linked")           \
    X(arg, "keep.recorded")         \
    X(arg, "keep.sealed")           \
    X(arg, "keep.reported")         \
    X(arg, "snapshot.copied")       \
    X(arg, "snapshot.recorded")     \
    X(arg, "snapshot.made")         \
    X(arg, "snapshot.dropping")     \
    X(arg, "snapshot.flattened")    \
    X(arg, "snapshot.swapped")      \
    X(arg, "rebase.made")           \
    X(arg, "rebase.filled")         \
    X(arg, "snapshot.merged")       \
    X(arg, "snapshot.sent")         \
    X(arg, "snapshot.loaded")       \
    X(arg, "snapshot.unpacked")     \
    X(arg, "snapshot.committed")    \
    X(arg, "snapshot.marked")       \
    X(arg, "docker.before_create")  \
    X(arg, "docker.after_create")   \
    X(arg, "docker.before_start")   \
    X(arg, "docker.after_start")    \
    X(arg, "docker.before_remove")  \
    X(arg, "docker.after_remove")   \
    X(arg, "docker.before_bind")    \
    X(arg, "docker.after_bind")     \
    X(arg, "docker.after_list")     \
    X(arg, "docker.after_upload")   \
    X(arg, "docker.after_relay")    \
    X(arg, "docker.after_owner")    \
    X(arg, "docker.after_disown")   \
    X(arg, "docker.after_limits")   \
    X(arg, "places.before_limit")   \
    X(arg, "places.after_limit")    \
    X(arg, "remote.before_create")  \
    X(arg, "remote.after_create")   \
    X(arg, "remote.before_remove")  \
    X(arg, "remote.after_remove")   \
    X(arg, "helper.before_run")     \
    X(arg, "helper.before_answer")

#define FAULT_IS_NAME(name, known) || __builtin_strcmp(name, known) == 0
#define FAULT_CHECK_NAME(name) \
    _Static_assert(0 FAULT_TABLE(FAULT_IS_NAME, name), "no such fault point: add it to FAULT_TABLE")

#ifdef SANDPOOL_FAULTS
#define FAULT_POINT(name)       \
    do {                        \
        FAULT_CHECK_NAME(name); \
        fault_hit(name);        \
    } while (0)
#else
#define FAULT_POINT(name)       \
    do {                        \
        FAULT_CHECK_NAME(name); \
    } while (0)
#endif

/* A time that the same builds make shorter: a hundredth with SANDPOOL_HURRY=100 in the environment. */
#ifdef SANDPOOL_FAULTS
#define FAULT_TIME(ns) fault_time(ns)
#else
#define FAULT_TIME(ns) (ns)
#endif

/* What FAULT_POINT() and FAULT_TIME() call. */
void fault_hit(const char *name);
uint64_t fault_time(uint64_t ns);

/* All names, ending with NULL. */
const char *const *fault_names(void);
/* Whether this build can be made to die at a named point. */
bool fault_is_built_in(void);

#endif
