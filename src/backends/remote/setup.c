/* setup.c - what the backend needs before the first call: where the provisioner is, its key, and how our
 * boxes are distinguished from others' there. */
#include <stdio.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/sha256.h"
#include "base/str.h"

static bool has_key(const struct config_profile *p)
{
    return !str_is_empty(p->remote.provisioner_api_key) ||
           !str_is_empty(p->remote.provisioner_api_key_file);
}

/* Profiles of one provisioner share us; one of them that has the key is enough. */
static const struct config_profile *who_has_key(const struct config *c,
                                                const struct config_profile *p)
{
    for (unsigned i = 0; !has_key(p) && i < c->profile_count; i++) {
        const struct config_profile *other = &c->profiles[i];

        if (strcmp(other->backend, p->backend) == 0 && has_key(other) &&
            strcmp(other->remote.provisioner_url, p->remote.provisioner_url) == 0)
            return other;
    }
    return p;
}

static int take_key(struct remote *r, const struct config_profile *p, struct err *err)
{
    static const char name[] = "X-API-Key: ";
    char key[CONFIG_PATH_MAX + 1] = "";
    int rc = SP_OK;

    if (!str_is_empty(p->remote.provisioner_api_key_file))
        rc = config_read_secret("remote.provisioner_api_key_file",
                                p->remote.provisioner_api_key_file, 1, key, sizeof(key), err);
    else
        str_copy_cut(key, sizeof(key), p->remote.provisioner_api_key);
    if (rc != SP_OK)
        return rc;
    if (!str_is_empty(key))
        (void) snprintf(r->key_header, sizeof(r->key_header), "%s%s", name, key);
    r->key = str_is_empty(r->key_header) ? "" : r->key_header + strlen(name);
    return rc;
}

static void take_limits(struct remote *r, const struct config_profile *p)
{
    r->create_ns = p->remote.create_timeout_s * NS_PER_S;
    r->destroy_ns = p->remote.destroy_timeout_s * NS_PER_S;
    r->get_ns = p->remote.get_timeout_s * NS_PER_S;
    r->list_ns = p->remote.list_timeout_s * NS_PER_S;
}

void remote_prepare(struct backend *backend, const struct config_profile *p)
{
    struct remote *r = remote_of(backend);
    struct err err;

    if (strcmp(p->name, r->profile) == 0)
        take_limits(r, p);
    if (has_key(p) && take_key(r, p, &err) != SP_OK) /* the old one stays */
        log_warn("remote.key_unreadable", LF_STR("profile", p->name), LF_STR("reason", err.msg));
}

int remote_setup(struct remote *r, const struct config *c, const struct config_profile *p,
                 struct err *err)
{
    unsigned char digest[32];
    struct sha256 h;
    char hex[9];
    size_t len;

    if (!config_is_url(p->remote.provisioner_url))
        return err_set(err, SP_CONFIG, "remote.provisioner_url is missing or not a URL");
    str_copy_cut(r->url, sizeof(r->url), p->remote.provisioner_url);
    for (len = strlen(r->url); len > 0 && r->url[len - 1] == '/'; len--)
        r->url[len - 1] = '\0';
    str_copy_cut(r->profile, sizeof(r->profile), p->name);
    take_limits(r, p);
    sha256_init(&h);
    sha256_add(&h, r->instance, strlen(r->instance));
    sha256_end(&h, digest);
    str_hex(hex, digest, 4);
    (void) snprintf(r->prefix, sizeof(r->prefix), "sp-%s-", hex);
    return take_key(r, who_has_key(c, p), err);
}
