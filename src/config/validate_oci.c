/* validate_oci.c - keys of backend oci. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/validate.h"

#define IDS_PER_BOX 65536ULL
#define IDS_END ((1ULL << 32) - 65536)

static bool is_runtime(const char *s)
{
    return str_is_empty(s) || s[0] == '/' || strcmp(s, "crun") == 0 || strcmp(s, "runc") == 0 ||
           strcmp(s, "runsc") == 0;
}

/* "debian:12" names an image of Docker; skopeo also needs to know where the image is. */
static bool has_transport(const char *image)
{
    static const char *const known[] = {"oci:",      "oci-archive:",   "docker-archive:",
                                        "docker://", "docker-daemon:", "containers-storage:",
                                        "dir:"};

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strncmp(image, known[i], strlen(known[i])) == 0)
            return true;
    }
    return false;
}

void check_oci(const struct check *k, const struct config_profile *p)
{
    if (strcmp(p->backend, CONFIG_BACKEND_OCI) != 0)
        return;
    if (!is_runtime(p->runtime))
        check_complain(k, p, "runtime",
                       "must be crun, runc, runsc or the absolute path of a runtime");
    if (!str_is_empty(p->image) && !has_transport(p->image))
        check_complain(k, p, "image",
                       "must say where the image is: docker://debian:12, oci:/dir:tag, "
                       "docker-archive:/file.tar");
}

/* Ids near the end of 32 bits have special meanings. */
void check_oci_ids(const struct check *k)
{
    const struct config *c = k->c;
    char text[CONFIG_WHY_MAX];
    bool is_used = false;

    for (unsigned i = 0; i < c->profile_count; i++)
        is_used = is_used || strcmp(c->profiles[i].backend, CONFIG_BACKEND_OCI) == 0;
    if (!is_used || c->oci.id_base + IDS_PER_BOX * c->pool.max_boxes <= IDS_END)
        return;
    (void) snprintf(text, sizeof(text),
                    "(%llu) leaves no room for %u ids for each of pool.max_boxes (%llu)",
                    (unsigned long long) c->oci.id_base, (unsigned) IDS_PER_BOX,
                    (unsigned long long) c->pool.max_boxes);
    check_complain(k, NULL, "oci.id_base", text);
}
