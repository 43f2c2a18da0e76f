/* registry.c - the backends by name. */
#include "backend/registry.h"

#include <stdlib.h>
#include <string.h>

#include "backend/sim.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/oci.h"

static const struct backend_ops *const all[] = {&oci_ops, &sim_ops};

const struct backend_ops *backend_by_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

const char *const *backend_names(void)
{
    static const char *names[ARRAY_LEN(all) + 1];

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        names[i] = all[i]->name;
    return names;
}

void backend_list_fini(struct backend_list *r)
{
    free(r->boxes);
    r->boxes = NULL;
    r->count = 0;
}

struct backend_finding *backend_find(struct backend_exam *r, enum backend_finding_level level,
                                     const char *subject)
{
    struct backend_finding *f;

    if (r->count == BACKEND_FINDINGS_MAX)
        return NULL;
    if (r->findings == NULL)
        r->findings = xcalloc(BACKEND_FINDINGS_MAX, sizeof(r->findings[0]));
    f = &r->findings[r->count++];
    f->level = level;
    str_copy_cut(f->subject, sizeof(f->subject), subject);
    return f;
}

void backend_exam_fini(struct backend_exam *r)
{
    free(r->findings);
    r->findings = NULL;
    r->count = 0;
}
