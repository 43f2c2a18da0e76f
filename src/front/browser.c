/* browser.c - what Host, Origin and Sec-Fetch-* say of who makes a request. */
#include "front/browser.h"

#include <string.h>
#include <strings.h>

#include "base/str.h"

struct signs {
    const char *host;   /* NULL: absent; for all of them */
    const char *origin; /* of the page, for all but plain reading of its own */
    const char *site;   /* of the page, compared with ours */
    const char *dest;   /* what the answer is for; "empty": the page gets it as data */
};

static void read_signs(const struct http_exchange *ex, struct signs *ret)
{
    const char *name;
    const char *value;

    *ret = (struct signs){.host = NULL};
    for (unsigned i = 0; http_header_at(ex, i, &name, &value); i++) {
        if (strcasecmp(name, "Host") == 0)
            ret->host = value;
        else if (strcasecmp(name, "Origin") == 0)
            ret->origin = value;
        else if (strcasecmp(name, "Sec-Fetch-Site") == 0)
            ret->site = value;
        else if (strcasecmp(name, "Sec-Fetch-Dest") == 0)
            ret->dest = value;
    }
}

/* Without the port. */
static size_t name_len(const char *host)
{
    return host[0] == '[' ? strcspn(host, "]") : strcspn(host, ":");
}

static bool is_listed(const struct config *c, const char *host, size_t len)
{
    const char *list = c->socket.hosts;

    while (*list != '\0') {
        size_t n;

        list += strspn(list, ", ");
        n = strcspn(list, ", ");
        if (n > 0 && n == len && strncasecmp(list, host, len) == 0)
            return true;
        list += n;
    }
    return false;
}

/* Names that no stranger can make point to us: addresses, and names without a dot. */
static bool is_safe_name(const char *host, size_t len)
{
    static const char local[] = ".localhost";
    size_t local_len = strlen(local);

    return host[0] == '[' || memchr(host, '.', len) == NULL || strspn(host, "0123456789.") >= len ||
           (len > local_len && strncasecmp(host + len - local_len, local, local_len) == 0);
}

/* "http://host:port" and "host:port". */
static bool is_own_origin(const struct signs *s, const struct config *c, bool is_tcp)
{
    static const char secure[] = "https://";
    const char *host = strstr(s->origin, "://");

    if (is_tcp && strncasecmp(s->origin, secure, strlen(secure)) != 0)
        return false; /* of a page that somebody on the way may have written */
    if (host == NULL) /* "null": of a page without one */
        return false;
    host += strlen("://");
    return (s->host != NULL && strcasecmp(host, s->host) == 0) ||
           (!is_tcp && is_listed(c, host, name_len(host)));
}

static bool is_data(const struct signs *s)
{
    bool is_own =
        s->site == NULL || strcmp(s->site, "same-origin") == 0 || strcmp(s->site, "none") == 0;
    bool is_read =
        s->dest == NULL || strcmp(s->dest, "empty") == 0 || strcmp(s->dest, "websocket") == 0;

    return is_own && is_read;
}

int front_check_browser(const struct http_exchange *ex, const struct config *c, bool is_relayed,
                        struct err *err)
{
    bool is_tcp = http_peer(ex)->is_tcp; /* with TLS: a browser has compared the name itself */
    struct signs s;
    size_t len;

    read_signs(ex, &s);
    len = s.host != NULL ? name_len(s.host) : 0;
    /* At the other end of a tunnel there is a port, but none in the names of sites. */
    if (!is_tcp && is_relayed && (s.host == NULL || strchr(s.host + len, ':') == NULL))
        return SP_OK;
    if (!is_tcp && len > 0 && !is_safe_name(s.host, len) && !is_listed(c, s.host, len))
        return err_set(err, SP_FORBIDDEN,
                       "the Host '%.100s' is none of socket.hosts: a page of the Web could have "
                       "sent this",
                       s.host);
    if (s.origin != NULL && !is_own_origin(&s, c, is_tcp))
        return err_set(err, SP_FORBIDDEN, "a page of '%.100s' may not call this API", s.origin);
    /* As a page of its own, what a box has written would have the rights of ours. */
    if (!is_data(&s))
        return err_set(err, SP_FORBIDDEN,
                       "browsers get this as data for the page at /ui only; a server in a sandbox "
                       "is opened by 'sandpool port-forward'");
    return SP_OK;
}
