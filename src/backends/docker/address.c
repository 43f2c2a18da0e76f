/* address.c - where the engine is, in one form whoever names it: by the profile, the environment or not at
 * all; and the files of TLS, as the engine's own client finds them. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/cleanup.h"
#include "base/str.h"

#define USUAL_SOCKET "unix:///var/run/docker.sock"
#define UNIX_SCHEME "unix://"
#define TCP_SCHEME "tcp://"

static const char *from_env(const char *name)
{
    const char *value = getenv(name);

    return value != NULL ? value : "";
}

static bool has_scheme(const char *address, const char *scheme)
{
    return strncmp(address, scheme, strlen(scheme)) == 0;
}

static bool is_tls(const struct config_profile *p)
{
    return !str_is_empty(p->docker.tls_ca) || !str_is_empty(p->docker.tls_cert) ||
           !str_is_empty(p->docker.tls_key) || !str_is_empty(from_env("DOCKER_TLS_VERIFY"));
}

/* The directory without links: /var/run is /run. Not the socket itself, which may not be there yet:
 * the key of rows must not depend on that. */
static void put_socket(const char *path, char *dst, size_t cap)
{
    const char *name = strrchr(path, '/');
    char dir[CONFIG_PATH_MAX + 1];
    AUTO_FREE char *whole = NULL;

    if (name != NULL && name != path && str_copy_n(dir, sizeof(dir), path, (size_t) (name - path)))
        whole = realpath(dir, NULL);
    if (whole == NULL || strlen(whole) + strlen(name) + sizeof(UNIX_SCHEME) > cap)
        (void) snprintf(dst, cap, UNIX_SCHEME "%s", path);
    else
        (void) snprintf(dst, cap, UNIX_SCHEME "%s%s", strcmp(whole, "/") == 0 ? "" : whole, name);
}

/* The engine's client adds the port. "[::1]" has colons of its own. */
static void put_tcp(const char *host, bool want_tls, char *dst, size_t cap)
{
    const char *bracket = strchr(host, ']');
    bool has_port = strchr(bracket != NULL ? bracket : host, ':') != NULL;

    (void) snprintf(dst, cap, TCP_SCHEME "%.200s%s", host,
                    has_port   ? ""
                    : want_tls ? ":2376"
                               : ":2375");
}

/* "" when it is too long. */
static void put_address(const struct config_profile *p, char *dst, size_t cap)
{
    const char *address = p->docker.host;

    if (str_is_empty(address))
        address = from_env("DOCKER_HOST");
    if (str_is_empty(address))
        address = USUAL_SOCKET;
    dst[0] = '\0';
    if (strlen(address) > CONFIG_PATH_MAX)
        return;
    if (has_scheme(address, UNIX_SCHEME))
        put_socket(address + strlen(UNIX_SCHEME), dst, cap);
    else if (has_scheme(address, TCP_SCHEME))
        put_tcp(address + strlen(TCP_SCHEME), is_tls(p), dst, cap);
    else
        str_copy_cut(dst, cap, address);
}

void docker_put_key(const struct config_profile *p, char *dst, size_t cap)
{
    char address[CONFIG_PATH_MAX + 1];

    put_address(p, address, sizeof(address));
    (void) snprintf(dst, cap, "docker:%s", address);
}

/* --- TLS --- */

static int take_file(char *dst, size_t cap, const char *dir, const char *name, struct err *err)
{
    char path[CONFIG_PATH_MAX + 1];

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int) sizeof(path))
        return err_set(err, SP_CONFIG, "$DOCKER_CERT_PATH is too long");
    if (access(path, R_OK) == 0) /* as the engine's client: what is not there is not used */
        str_copy_cut(dst, cap, path);
    return SP_OK;
}

/* DOCKER_TLS_VERIFY is set: the files are where the engine's client looks for them. */
static int take_usual_files(struct docker *d, struct err *err)
{
    const char *dir = from_env("DOCKER_CERT_PATH");
    char home[CONFIG_PATH_MAX + 1];
    int rc;

    if (str_is_empty(dir)) {
        (void) snprintf(home, sizeof(home), "%.240s/.docker", from_env("HOME"));
        dir = home;
    }
    rc = take_file(d->tls_ca, sizeof(d->tls_ca), dir, "ca.pem", err);
    if (rc == SP_OK)
        rc = take_file(d->tls_cert, sizeof(d->tls_cert), dir, "cert.pem", err);
    if (rc == SP_OK)
        rc = take_file(d->tls_key, sizeof(d->tls_key), dir, "key.pem", err);
    return rc;
}

static int take_tls(struct docker *d, const struct config_profile *p, struct err *err)
{
    int rc = SP_OK;

    if (str_is_empty(p->docker.tls_cert) != str_is_empty(p->docker.tls_key))
        return err_set(err, SP_CONFIG, "docker.tls_cert and docker.tls_key: give both or none");
    if (str_is_empty(p->docker.tls_ca) && str_is_empty(p->docker.tls_cert)) {
        rc = take_usual_files(d, err);
    } else {
        str_copy_cut(d->tls_ca, sizeof(d->tls_ca), p->docker.tls_ca);
        str_copy_cut(d->tls_cert, sizeof(d->tls_cert), p->docker.tls_cert);
        str_copy_cut(d->tls_key, sizeof(d->tls_key), p->docker.tls_key);
    }
    d->tls.ca_file = str_is_empty(d->tls_ca) ? NULL : d->tls_ca;
    if (!str_is_empty(d->tls_cert) && !str_is_empty(d->tls_key)) {
        d->tls.cert_file = d->tls_cert;
        d->tls.key_file = d->tls_key;
    }
    d->is_tls = true;
    return rc;
}

int docker_take_address(struct docker *d, const struct config_profile *p, struct err *err)
{
    put_address(p, d->address, sizeof(d->address));
    if (str_is_empty(d->address))
        return err_set(err, SP_CONFIG, "the engine's address is too long");
    if (has_scheme(d->address, UNIX_SCHEME) && d->address[strlen(UNIX_SCHEME)] == '/') {
        const char *path = d->address + strlen(UNIX_SCHEME);

        if (strlen(path) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
            return err_set(err, SP_CONFIG, "docker.host is too long for a Unix socket");
        str_copy_cut(d->socket, sizeof(d->socket), path);
        /* A name of its own: connections are counted by host. */
        (void) snprintf(d->url, sizeof(d->url), "http://docker-%08x",
                        (unsigned) (hash_str(path) & UINT32_MAX));
        return SP_OK;
    }
    if (!has_scheme(d->address, TCP_SCHEME) ||
        strpbrk(d->address + strlen(TCP_SCHEME), "/@?# ") != NULL)
        return err_set(err, SP_CONFIG,
                       "docker.host must be unix:///path or tcp://host:port, not '%.100s'",
                       d->address);
    d->base.is_elsewhere = true;
    (void) snprintf(d->url, sizeof(d->url), "%s://%s", is_tls(p) ? "https" : "http",
                    d->address + strlen(TCP_SCHEME));
    return is_tls(p) ? take_tls(d, p, err) : SP_OK;
}
