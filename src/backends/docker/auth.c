/* auth.c - the credentials a registry gets: read from a config.json of Docker's client. The secret
 * goes into one header and nowhere else. */
#include <stdio.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

enum { FILE_MAX = 1024 * 1024, REGISTRY_MAX = 255, SECRET_MAX = 64 * 1024 };

/* "ghcr.io/a/b:1" is of ghcr.io, "debian:12" and "a/b" of the usual one. */
static void put_registry(const char *image, char *dst, size_t cap)
{
    size_t len = strcspn(image, "/");

    if (image[len] == '/' && str_copy_n(dst, cap, image, len) &&
        (strpbrk(dst, ".:") != NULL || strcmp(dst, "localhost") == 0))
        return;
    str_copy_cut(dst, cap, "docker.io");
}

/* Keys of the file may be addresses: "https://index.docker.io/v1/". */
static bool is_registry(const char *key, const char *registry)
{
    static const char *const usual[] = {"index.docker.io", "registry-1.docker.io"};
    const char *scheme = strstr(key, "://");
    char host[REGISTRY_MAX + 1];

    if (scheme != NULL)
        key = scheme + 3;
    if (!str_copy_n(host, sizeof(host), key, strcspn(key, "/")))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (strcmp(host, usual[i]) == 0)
            str_copy_cut(host, sizeof(host), "docker.io");
    return strcmp(host, registry) == 0;
}

static const struct json *find_entry(const struct json *object, const char *registry)
{
    const struct json *value;
    const char *key;

    for (size_t i = 0; json_member(object, i, &key, &value); i++)
        if (is_registry(key, registry))
            return value;
    return NULL;
}

static void put_header(const char *registry, const char *user, const char *password,
                       const char *token, struct buf *out)
{
    struct json_out j;
    struct buf text;

    buf_init(&text, SECRET_MAX);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    if (token != NULL) {
        json_put_str(&j, "identitytoken", token);
    } else {
        json_put_str(&j, "username", user);
        json_put_str(&j, "password", password);
    }
    json_put_str(&j, "serveraddress", registry);
    json_end(&j);
    json_out_finish(&j, &text);
    buf_puts(out, "X-Registry-Auth: ");
    base64_encode_url(buf_str(&text), text.len, out);
    buf_fini(&text);
}

static int take_entry(const struct json *entry, const char *registry, struct buf *out,
                      struct err *err)
{
    const char *auth = json_str(json_get(entry, "auth"));
    const char *token = json_str(json_get(entry, "identitytoken"));
    struct buf text;
    char *colon = NULL;

    if (token != NULL && token[0] != '\0') {
        put_header(registry, NULL, NULL, token, out);
        return SP_OK;
    }
    buf_init(&text, SECRET_MAX);
    if (auth != NULL && base64_decode(auth, strlen(auth), &text))
        colon = strchr(buf_str(&text), ':');
    if (colon != NULL) {
        *colon = '\0';
        put_header(registry, buf_str(&text), colon + 1, NULL, out);
    }
    buf_fini(&text);
    return colon != NULL
               ? SP_OK
               : err_set(err, SP_CONFIG, "its entry for %.80s has no readable `auth`", registry);
}

static int take_root(const struct json *root, const char *image, struct buf *out, struct err *err)
{
    char registry[REGISTRY_MAX + 1];
    const struct json *entry;
    const char *helper;

    put_registry(image, registry, sizeof(registry));
    entry = find_entry(json_get(root, "auths"), registry);
    helper = json_str(find_entry(json_get(root, "credHelpers"), registry));
    if (helper == NULL && entry != NULL && json_len(entry) == 0)
        helper = json_str(json_get(root, "credsStore"));
    if (helper != NULL)
        return err_set(
            err, SP_CONFIG,
            "it leaves %.80s to the credential helper '%.40s', which is not run: put the "
            "name and password under `auths`",
            registry, helper);
    return entry != NULL ? take_entry(entry, registry, out, err) : SP_OK;
}

static int read_file(const char *path, struct buf *out, struct err *err)
{
    AUTO_CLOSE int fd = -1;
    int sys = file_open_regular(path, &fd);

    if (sys == FILE_NOT_REGULAR)
        return err_set(err, SP_CONFIG, "it is not a file");
    if (sys != 0)
        return err_sys(err, SP_CONFIG, sys, "it cannot be opened");
    return file_read_rest(fd, out) == 0
               ? SP_OK
               : err_set(err, SP_CONFIG, "it cannot be read, or is too large");
}

int docker_auth_read(const char *path, const char *image, struct buf *out, struct err *err)
{
    struct json_doc *doc = NULL;
    struct buf text;
    int rc;

    buf_init(&text, FILE_MAX);
    rc = read_file(path, &text, err);
    if (rc == SP_OK) {
        doc = json_parse(buf_str(&text), text.len, FILE_MAX, NULL); /* its error might quote */
        if (doc == NULL || !json_is_obj(json_root(doc)))
            rc = err_set(err, SP_CONFIG, "it is not a JSON object");
    }
    if (rc == SP_OK)
        rc = take_root(json_root(doc), image, out, err);
    (void) json_doc_free(doc);
    buf_fini(&text);
    return rc == SP_OK ? SP_OK : err_wrap(err, "docker.auth_file '%.60s'", path);
}
