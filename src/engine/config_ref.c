/* config_ref.c - counted references to a configuration, so that a reload never pulls a profile
 * from under an operation that was started with it. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/internal.h"

struct engine_config_ref *config_ref_new(struct config *config)
{
    struct engine_config_ref *ref = xcalloc(1, sizeof(*ref));

    ref->config = config;
    ref->refs = 1;
    return ref;
}

struct engine_config_ref *config_ref_get(struct engine_config_ref *ref)
{
    ref->refs++;
    return ref;
}

void config_ref_put(struct engine_config_ref *ref)
{
    if (ref == NULL)
        return;
    assert(ref->refs > 0);
    ref->refs--;
    if (ref->refs > 0)
        return;
    if (!ref->is_kept)
        (void) config_free(ref->config); /* returns NULL by convention */
    free(ref);
}
