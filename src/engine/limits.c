/* limits.c - a profile's limits are what its callers may use; only operators may go beyond. Which
 * profile counts is known when the box is: a thread may have one of another profile than it names. */
#include "engine/internal.h"

int engine_check_limits(struct engine *e, unsigned profile, const struct backend_extras *x,
                        struct err *err)
{
    const struct config_profile *p = engine_profile(e, profile);
    const char *name = NULL;

    if (x->memory == 0 && x->cpus == 0 && x->pids == 0)
        return SP_OK;
    if (p == NULL)
        return err_set(
            err, SP_FORBIDDEN,
            "'limits': the profile of this box is no longer configured; only an operator "
            "may change them");
    if (p->limits.memory > 0 && x->memory > p->limits.memory)
        name = "memory";
    else if (p->limits.cpus > 0 && x->cpus > p->limits.cpus)
        name = "cpus";
    else if (p->limits.pids > 0 && x->pids > p->limits.pids)
        name = "pids";
    if (name == NULL)
        return SP_OK;
    return err_set(err, SP_FORBIDDEN,
                   "'limits': '%s' is more than profile '%s' gives; only an "
                   "operator may ask for that",
                   name, p->name);
}
