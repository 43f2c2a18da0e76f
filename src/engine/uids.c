/* uids.c - names of the users of this machine. A look-up may ask a server, so it is made on a thread, one at a time; what
 * it found is kept for a while. */
#include <pwd.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/holders.h"
#include "engine/internal.h"

#define KEEP_NS (600 * NS_PER_S)

enum { RECORD_MAX = 16 * 1024 }; /* of a user, with all that getpwuid_r() needs */

struct lookup {
    struct work work;
    struct engine *engine;
    struct engine_uid found;
};

static struct engine_uid *place_of(struct engine *e, uint64_t uid)
{
    return &e->uids.known[hash_u64(uid) % ARRAY_LEN(e->uids.known)];
}

static int look_up(struct work *work, struct err *err UNUSED)
{
    struct lookup *l = container_of(work, struct lookup, work);
    char *text = xcalloc(1, RECORD_MAX);
    struct passwd record;
    struct passwd *found = NULL;

    if (getpwuid_r((uid_t) l->found.uid, &record, text, RECORD_MAX, &found) == 0 && found != NULL)
        str_copy_cut(l->found.name, sizeof(l->found.name), found->pw_name);
    free(text);
    return SP_OK;
}

static void on_looked_up(struct op *op)
{
    struct lookup *l = container_of(op, struct lookup, work.op);
    struct engine *e = l->engine;

    e->uids.is_looking = false;
    l->found.at_ns = rt_now(e->rt);
    *place_of(e, l->found.uid) = l->found;
    free(l);
    engine_op_ended(e);
}

const char *engine_uid_name(struct engine *e, uint64_t uid)
{
    const struct engine_uid *known = place_of(e, uid);
    bool is_known = known->at_ns != 0 && known->uid == uid;
    struct lookup *l;

    if (!e->uids.is_looking && !e->is_closing && uid <= UINT32_MAX &&
        (!is_known || rt_after(known->at_ns, KEEP_NS) <= rt_now(e->rt))) {
        e->uids.is_looking = true;
        l = xcalloc(1, sizeof(*l));
        l->engine = e;
        l->found.uid = uid;
        l->work.run = look_up;
        engine_op_begun(e);
        work_start(e->loop, &l->work, NULL, RT_NEVER, on_looked_up);
    }
    return is_known ? known->name : "";
}
