/* network.c - what the network of a box needs here. */
#include "backends/oci/internal.h"
#include "base/str.h"

const char *oci_network_missing(const struct oci *o, const struct config_profile *p)
{
    if (p->network.mode != CONFIG_NETWORK_NAT)
        return NULL;
    if (config_egress(p) != NULL && o->is_rootless)
        return "`network.allow` needs a daemon that runs as root";
    if (config_egress(p) != NULL && str_is_empty(o->slirp))
        return "`network.allow` needs slirp4netns, which is not installed: install the package "
               "slirp4netns";
    if (config_egress(p) != NULL && str_is_empty(o->nft))
        return "`network.allow` needs the program nft, which is not installed: install the package "
               "nftables";
    if (!str_is_empty(o->slirp) || !str_is_empty(o->pasta))
        return NULL;
    return o->is_rootless ? "`network: nat` needs slirp4netns, which is not installed: install the "
                            "package slirp4netns"
                          : "`network: nat` needs slirp4netns or pasta, and neither is installed: "
                            "install the package slirp4netns or passt";
}
