/* oci.c - the vtable of the `oci` backend. */
#include "oci/oci.h"

static int oci_open(const struct backend_env *env UNUSED,
                    const struct config_profile *profile UNUSED, struct backend **ret UNUSED,
                    struct err *err)
{
    return err_set(err, SP_UNSUPPORTED, "no boxes yet");
}

const struct backend_ops oci_ops = {.name = "oci", .open = oci_open};
