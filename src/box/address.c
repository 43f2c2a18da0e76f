/* address.c - where a caller finds its box. */
#include "box/address.h"

#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "base/str.h"

void box_capability(const char *sandbox_id, const char *token, char ret[BOX_CAPABILITY_LEN + 1])
{
    static const char label[] = "sandpool: address of a box";
    struct sha256 s;
    unsigned char digest[32];

    sha256_init(&s);
    sha256_add(&s, label, sizeof(label)); /* with their NULs, which end each part */
    sha256_add(&s, sandbox_id, strlen(sandbox_id) + 1);
    sha256_add(&s, token, strlen(token));
    sha256_end(&s, digest);
    str_hex(ret, digest, BOX_CAPABILITY_LEN / 2);
}

/* "host:80", "[::1]:80"; many colons without brackets are an address without a port. */
static bool has_port(const char *host)
{
    const char *colon = strrchr(host, ':');

    if (host[0] == '[')
        return colon != NULL && colon[-1] == ']';
    return colon != NULL && strchr(host, ':') == colon;
}

void box_host(const char *advertise, const char *host_header, const char *listen, char *dst,
              size_t cap)
{
    const char *port = strrchr(listen, ':'); /* the configuration guarantees one */

    if (!str_is_empty(advertise)) {
        bool is_bare6 = advertise[0] != '[' && strchr(advertise, ':') != strrchr(advertise, ':');

        (void) snprintf(dst, cap, "%s%s%s%s", is_bare6 ? "[" : "", advertise, is_bare6 ? "]" : "",
                        has_port(advertise) ? "" : port);
    } else if (host_header != NULL && str_is_name(host_header, 128, "._-:[]")) {
        (void) snprintf(dst, cap, "%s", host_header);
    } else {
        (void) snprintf(dst, cap, "%s", listen);
    }
}
