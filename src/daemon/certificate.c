/* certificate.c - see certificate.h. */
#include "daemon/certificate.h"

#include <time.h>

#include "base/log.h"
#include "base/str.h"

#define SOON_S (14 * 24 * 3600)

static void report(const struct config *c, const struct tls *t)
{
    int64_t expires_s = tls_expires(t);
    bool is_soon = expires_s - (int64_t) time(NULL) < SOON_S;
    char text[32];

    str_iso8601(text, (uint64_t) expires_s * 1000);
    if (is_soon)
        log_warn("tls.expires_soon", LF_STR("cert", c->tls.cert), LF_STR("expires", text));
    else
        log_info("tls.loaded", LF_STR("cert", c->tls.cert), LF_STR("expires", text));
}

int certificate_read(const struct config *c, struct tls **ret, struct err *err)
{
    struct tls_files files = {.cert = c->tls.cert,
                              .key = c->tls.key,
                              .client_ca = c->tls.client_ca,
                              .must_have_client = c->tls.client_required};
    int r;

    *ret = NULL;
    if (str_is_empty(c->tls.cert))
        return SP_OK;
    r = tls_load(&files, ret, err);
    if (r == SP_OK)
        report(c, *ret);
    return r;
}

void certificate_use(struct tls **own, struct tls *t, struct servers *servers)
{
    struct http_secure secure = tls_secure(t);

    for (unsigned i = 0; i < servers->count; i++)
        http_server_set_secure(servers->items[i].http, &secure);
    if (*own != t)
        (void) tls_free(*own); /* returns NULL by convention */
    *own = t;
}
