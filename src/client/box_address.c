/* box_address.c - where the calls of a box go: the daemon's socket, or the address of a lease. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/str.h"
#include "client/box_internal.h"

enum { GRACE_MS = 60 * 1000 };

/* "http://host:port/path", host may be an address in brackets. */
static bool split_url(const char *url, char *host, size_t host_cap, char *port, size_t port_cap)
{
    static const char scheme[] = "http://";
    const char *at = url + sizeof(scheme) - 1;
    const char *end;

    if (strncmp(url, scheme, sizeof(scheme) - 1) != 0)
        return false;
    if (*at == '[') {
        at++;
        end = strchr(at, ']');
        if (end == NULL || !str_copy_n(host, host_cap, at, (size_t) (end - at)))
            return false;
        end++;
    } else {
        end = at + strcspn(at, ":/");
        if (!str_copy_n(host, host_cap, at, (size_t) (end - at)))
            return false;
    }
    if (*end == ':') {
        size_t len = strcspn(end + 1, "/");

        return str_copy_n(port, port_cap, end + 1, len) && !str_is_empty(host);
    }
    return str_copy(port, port_cap, "80") && !str_is_empty(host);
}

static bool is_visible(const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s <= ' ' || *s > '~')
            return false;
    }
    return true;
}

/* What a request says of the url; the rest of it is where to connect. */
static bool take_names(struct sp_box *b)
{
    const char *at = b->url + strcspn(b->url, "/");
    size_t len;

    at += strspn(at, "/");
    len = strcspn(at, "/");
    if (!is_visible(b->url) || strpbrk(at, "?#@") != NULL ||
        !str_copy_n(b->authority, sizeof(b->authority), at, len) ||
        !str_copy(b->prefix, sizeof(b->prefix), at + len))
        return false;
    len = strlen(b->prefix);
    if (len > 0 && b->prefix[len - 1] == '/')
        len--;
    return str_copy(b->prefix + len, sizeof(b->prefix) - len, "/v1/agent");
}

static int resolve(struct sp_box *b, struct sp_failure *f)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[128];
    char port[8];
    int r;

    if (!split_url(b->url, host, sizeof(host), port, sizeof(port)) || !take_names(b))
        return client_fail(f, SP_BAD_REQUEST,
                           "the box's address '%s' is not like http://host:port/path", b->url);
    r = getaddrinfo(host, port, &hints, &found);
    if (r != 0 || found == NULL)
        return client_fail(f, SP_CONNECT_FAILED, "the box's address '%s' is not known: %s", b->url,
                           gai_strerror(r));
    memcpy(&b->address, found->ai_addr, found->ai_addrlen);
    b->address_len = found->ai_addrlen;
    freeaddrinfo(found);
    return SP_OK;
}

static struct sp_box *box_alloc(void)
{
    struct sp_box *b = calloc(1, sizeof(*b));

    if (b == NULL)
        abort(); /* a few hundred bytes */
    b->fd = -1;
    b->grace_ms = GRACE_MS;
    buf_init(&b->request, CLIENT_BODY_MAX);
    b->piece = malloc(BOX_PIECE);
    if (b->piece == NULL)
        abort();
    return b;
}

struct sp_box *sp_box_new_daemon(const struct sp_client *c)
{
    struct sp_box *b = box_alloc();
    struct sockaddr_un *addr = (struct sockaddr_un *) &b->address;

    addr->sun_family = AF_UNIX;
    /* One that is too long was refused by the client's own connection. */
    str_copy_cut(addr->sun_path, sizeof(addr->sun_path), c->socket);
    b->address_len = sizeof(*addr);
    str_copy_cut(b->url, sizeof(b->url), c->socket);
    str_copy_cut(b->authority, sizeof(b->authority), "localhost");
    return b;
}

struct sp_box *sp_box_new(const struct sp_client *c, const char *sandbox_id)
{
    struct sp_box *b = sp_box_new_daemon(c);

    (void) snprintf(b->prefix, sizeof(b->prefix), "/v1/sandboxes/%s", sandbox_id);
    return b;
}

struct sp_box *sp_box_new_direct(const struct sp_lease *lease, struct sp_failure *failure)
{
    struct sp_box *b = box_alloc();

    str_copy_cut(b->url, sizeof(b->url), lease->sandbox_url);
    str_copy_cut(b->token, sizeof(b->token), lease->token);
    if (!is_visible(b->token))
        (void) client_fail(failure, SP_BAD_REQUEST, "the box's token has spaces in it");
    else if (resolve(b, failure) == SP_OK)
        return b;
    sp_box_free(b);
    return NULL;
}
