/* forms.c - checks the format of texts. */
#include <arpa/inet.h>
#include <string.h>

#include "base/str.h"
#include "config/validate.h"

bool form_is_address(const char *s)
{
    const char *colon = strrchr(s, ':');
    char host[CONFIG_NAME_MAX + 1];
    struct in6_addr in;
    uint64_t port;
    size_t len;

    if (colon == NULL || !str_parse_u64(colon + 1, 1, 65535, &port))
        return false;
    len = (size_t) (colon - s);
    if (len >= 2 && s[0] == '[' && s[len - 1] == ']')
        return str_copy_n(host, sizeof(host), s + 1, len - 2) &&
               inet_pton(AF_INET6, host, &in) == 1;
    return str_copy_n(host, sizeof(host), s, len) && inet_pton(AF_INET, host, &in) == 1;
}

bool form_is_printable(const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s <= ' ' || *s > '~')
            return false;
    }
    return true;
}

bool config_is_url(const char *url)
{
    const char *host = NULL;
    const char *port;
    char digits[8];
    uint64_t number;
    size_t len;

    if (strncmp(url, "http://", 7) == 0)
        host = url + 7;
    else if (strncmp(url, "https://", 8) == 0)
        host = url + 8;
    if (host == NULL || !form_is_printable(url) || strpbrk(url, "@?#\"<>\\^`{|}") != NULL)
        return false;
    len = host[0] == '[' ? strspn(host + 1, "0123456789abcdefABCDEF:.") + 2 : strcspn(host, ":/");
    if (len == 0 || len > 253 || (host[0] == '[' && (len > strlen(host) || host[len - 1] != ']')))
        return false;
    port = host + len;
    if (*port != ':')
        return *port == '\0' || *port == '/';
    len = strcspn(port + 1, "/");
    return str_copy_n(digits, sizeof(digits), port + 1, len) &&
           str_parse_u64(digits, 1, 65535, &number);
}

bool config_is_env_name(const char *name)
{
    return str_is_name(name, CONFIG_PATH_MAX, "_") && !(name[0] >= '0' && name[0] <= '9');
}

bool form_is_root(const struct config *c UNUSED, const char *path)
{
    return config_path_is_plain(path) && strcmp(path, "/") != 0;
}
