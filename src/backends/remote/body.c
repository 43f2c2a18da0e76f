/* body.c - what a create sends to the provisioner: the id, the owner, and what shall be mounted. */
#include <stdio.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/sha256.h"
#include "base/str.h"

enum { OWNER_MAX = 64, DIGEST_LEN = 16 };

/* The provisioner takes letters, digits, _ and - only. Other characters are replaced, and a digest keeps names
 * distinct, as DeerFlow does with names of users. */
static void put_owner(struct json_out *j, const char *key, const char *name)
{
    char safe[OWNER_MAX + 1];
    char hex[2 * 32 + 1];
    unsigned char digest[32];
    struct sha256 h;
    size_t len;

    if (str_is_name(name, OWNER_MAX, "_-")) {
        json_put_str(j, key, name);
        return;
    }
    str_copy_cut(safe, sizeof(safe) - DIGEST_LEN - 1, name);
    for (char *s = safe; *s != '\0'; s++) {
        const char one[2] = {*s, '\0'};

        if (!str_is_name(one, 1, "_-"))
            *s = '-';
    }
    sha256_init(&h);
    sha256_add(&h, name, strlen(name));
    sha256_end(&h, digest);
    str_hex(hex, digest, sizeof(digest));
    len = strlen(safe);
    (void) snprintf(safe + len, sizeof(safe) - len, "-%.*s", DIGEST_LEN, hex);
    json_put_str(j, key, safe);
}

static void put_mount(struct json_out *j, const char *host_path, const char *box_path,
                      bool is_read_only)
{
    json_begin_obj(j, NULL);
    json_put_str(j, "host_path", host_path);
    json_put_str(j, "container_path", box_path);
    json_put_bool(j, "read_only", is_read_only);
    json_end(j);
}

static size_t count_words(const char *list)
{
    size_t count = str_is_empty(list) ? 0 : 1;

    for (; *list != '\0'; list++)
        count += *list == ',' ? 1 : 0;
    return count;
}

static void put_mounts(struct json_out *j, const struct backend_create *c)
{
    const char *list = c->profile->mounts;
    struct config_mount m;

    json_begin_arr(j, "extra_mounts");
    while (config_mount_next(&list, &m))
        put_mount(j, m.host_path, m.box_path, m.is_read_only);
    for (size_t i = 0; c->extras != NULL && i < c->extras->mount_count; i++)
        put_mount(j, c->extras->mounts[i].host_path, c->extras->mounts[i].box_path,
                  c->extras->mounts[i].is_read_only);
    json_end(j);
}

static int check(const struct backend_create *c, const char *name, size_t mounts, struct err *err)
{
    const struct backend_extras *x = c->extras;

    if (!remote_name_is_good(name) ||
        (!str_is_empty(c->labels.sandbox_id) &&
         (strcmp(name, c->labels.sandbox_id) != 0 || remote_name_is_blank(name))))
        return err_set(err, SP_INVALID_FIELD,
                       "a provisioner's sandbox_id has up to 51 lower-case letters, digits and "
                       "dashes within: not '%.64s'",
                       c->labels.sandbox_id);
    if (mounts > REMOTE_MOUNTS_MAX)
        return err_set(err, SP_INVALID_FIELD, "a provisioner takes %d mounts for a box, not %zu",
                       REMOTE_MOUNTS_MAX, mounts);
    if (x != NULL && (x->memory > 0 || x->cpus > 0 || x->pids > 0))
        return err_set(err, SP_UNSUPPORTED, "the provisioner decides the limits of its boxes");
    return SP_OK;
}

int remote_put_body(const struct backend_create *c, const char *name, struct buf *out,
                    struct err *err)
{
    const struct config_profile *p = c->profile;
    size_t mounts = count_words(p->mounts) + (c->extras != NULL ? c->extras->mount_count : 0);
    int rc = check(c, name, mounts, err);
    struct json_out j;

    if (rc != SP_OK)
        return rc;
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "sandbox_id", name);
    if (str_is_empty(c->labels.thread))
        json_put_null(&j, "thread_id");
    else
        put_owner(&j, "thread_id", c->labels.thread);
    if (!str_is_empty(c->labels.user))
        put_owner(&j, "user_id", c->labels.user);
    if (mounts > 0)
        put_mounts(&j, c);
    if (p->remote.max_shell_sessions > 0)
        json_put_u64(&j, "max_shell_sessions", p->remote.max_shell_sessions);
    json_end(&j);
    json_out_finish(&j, out);
    return buf_failed(out) ? err_set(err, SP_TOO_BIG, "the mounts are too long") : SP_OK;
}
