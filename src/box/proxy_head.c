/* proxy_head.c - targets and headers on their way through the proxy. Framing is made anew on either
 * side, so that nothing a client writes there reaches a box. */
#include "box/proxy_head.h"

#include <string.h>
#include <strings.h>

#include "base/str.h"

static const char prefix[] = "/s/";

bool proxy_split(const char *target, struct proxy_target *ret)
{
    const char *id = target + sizeof(prefix) - 1;
    size_t len;

    *ret = (struct proxy_target){.rest = NULL};
    if (strncmp(target, prefix, sizeof(prefix) - 1) != 0)
        return false;
    len = strcspn(id, "/?");
    if (!str_copy_n(ret->id, sizeof(ret->id), id, len) || !str_is_name(ret->id, BOX_ID_MAX, "._-"))
        return false;
    ret->rest = id + len;
    if (ret->rest[0] != '/')
        return true;
    len = strcspn(ret->rest + 1, "/?");
    if (len == BOX_CAPABILITY_LEN) {
        memcpy(ret->capability, ret->rest + 1, len);
        ret->rest_of_capability = ret->rest + 1 + len;
    }
    return true;
}

bool proxy_url(const char *box_url, const char *rest, struct buf *out)
{
    size_t len = strlen(box_url);

    while (len > 0 && box_url[len - 1] == '/')
        len--;
    for (const char *s = rest; *s != '\0'; s++) {
        if (*s <= ' ' || *s > '~' || *s == '#')
            return false;
    }
    buf_append(out, box_url, len);
    if (rest[0] != '/') /* the box itself, maybe with a query */
        buf_putc(out, '/');
    buf_puts(out, rest);
    return !buf_failed(out);
}

static bool is_one_of(const char *const *names, const char *name)
{
    for (; *names != NULL; names++) {
        if (strcasecmp(*names, name) == 0)
            return true;
    }
    return false;
}

/* Of the connection, not of the message. */
static bool is_hop_by_hop(const char *name)
{
    static const char *const names[] = {"Connection",
                                        "Keep-Alive",
                                        "Proxy-Authenticate",
                                        "Proxy-Authorization",
                                        "Proxy-Connection",
                                        "TE",
                                        "Trailer",
                                        "Transfer-Encoding",
                                        "Upgrade",
                                        "Content-Length",
                                        NULL};

    return is_one_of(names, name);
}

bool proxy_passes_request(const char *name)
{
    static const char *const names[] = {"Authorization", "Expect",    "Host", "HTTP2-Settings",
                                        "X-AIO-API-Key", "X-API-Key", NULL};

    return !is_hop_by_hop(name) && !is_one_of(names, name);
}

bool proxy_passes_to_port(const char *name, bool may_say_who)
{
    static const char *const names[] = {"Expect",
                                        "Host",
                                        "HTTP2-Settings",
                                        "X-Forwarded-Host",
                                        "X-Forwarded-Prefix",
                                        "X-Forwarded-Proto",
                                        NULL};

    if (strcasecmp(name, "Authorization") == 0)
        return may_say_who;
    return !is_hop_by_hop(name) && !is_one_of(names, name);
}

void proxy_put_protocols(struct buf *out, const char *list)
{
    while (*list != '\0') {
        size_t len;

        list += strspn(list, ", \t");
        len = strcspn(list, ", \t");
        if (len > 0 && strncmp(list, PROXY_TOKEN_PROTOCOL, strlen(PROXY_TOKEN_PROTOCOL)) != 0) {
            buf_puts(out, out->len > 0 ? ", " : "");
            buf_append(out, list, len);
        }
        list += len;
    }
}

bool proxy_passes_answer(const char *name)
{
    /* To browsers they mean all that is reached at this address, not one box: its worker would answer for all, its
     * collector would be sent the addresses of the others. */
    static const char *const of_all[] = {
        "Alt-Svc",   "Clear-Site-Data",        "NEL",
        "Report-To", "Service-Worker-Allowed", "Strict-Transport-Security",
        NULL};

    if (is_one_of(of_all, name))
        return false;
    return name[0] != '\0' && strpbrk(name, " \t") == NULL && !is_hop_by_hop(name);
}

bool proxy_names(const char *list, const char *name)
{
    size_t name_len = strlen(name);

    while (*list != '\0') {
        size_t len;

        list += strspn(list, ", \t");
        len = strcspn(list, ", \t");
        if (len == name_len && len > 0 && strncasecmp(list, name, len) == 0)
            return true;
        list += len;
    }
    return false;
}

bool proxy_next_line(char **lines, char **ret_name, char **ret_value)
{
    char *line = *lines;
    char *end;
    char *colon;

    if (*line == '\0')
        return false;
    end = line + strcspn(line, "\n");
    *lines = *end != '\0' ? end + 1 : end;
    *end = '\0';
    colon = strchr(line, ':');
    *ret_name = line;
    *ret_value = end;
    if (colon != NULL) {
        *colon = '\0';
        *ret_value = colon + 1 + strspn(colon + 1, " \t");
    }
    return true;
}
