/* extras.c - what an acquire asks of a box beside the box itself: its kinds, a copy, a hash by which two
 * of them are compared. */
#include <string.h>

#include "backend/backend.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

unsigned backend_extras_kinds(const struct backend_extras *x)
{
    unsigned kinds = x->env_count > 0 ? BACKEND_LATE_ENVS : 0U;

    if (x->mount_count > 0)
        kinds |= BACKEND_LATE_MOUNTS;
    if (x->memory > 0 || x->cpus > 0 || x->pids > 0)
        kinds |= BACKEND_LATE_LIMITS;
    if (x->snapshot != NULL)
        kinds |= BACKEND_SNAPSHOT;
    return kinds;
}

void backend_extras_keep(struct backend_extras *x, unsigned kinds)
{
    if ((kinds & BACKEND_LATE_ENVS) == 0)
        x->env_count = 0;
    if ((kinds & BACKEND_LATE_MOUNTS) == 0)
        x->mount_count = 0;
    if ((kinds & BACKEND_LATE_LIMITS) == 0) {
        x->memory = 0;
        x->cpus = 0;
        x->pids = 0;
    }
    if ((kinds & BACKEND_SNAPSHOT) == 0)
        x->snapshot = NULL;
}

/* Sums, because the order in which a caller names things says nothing; `salt` keeps the kinds apart. */
static uint64_t hash_pair(uint64_t salt, const char *a, const char *b)
{
    return hash_u64(salt + hash_u64(hash_str(a)) + hash_str(b));
}

uint64_t backend_extras_hash(const struct backend_extras *x, unsigned kinds)
{
    uint64_t h = 0;

    kinds &= backend_extras_kinds(x);
    if (kinds == 0)
        return 0;
    for (size_t i = 0; (kinds & BACKEND_LATE_ENVS) != 0 && i < x->env_count; i++)
        h += hash_pair(1, x->envs[i].name, x->envs[i].value);
    for (size_t i = 0; (kinds & BACKEND_LATE_MOUNTS) != 0 && i < x->mount_count; i++)
        h += hash_pair(x->mounts[i].is_read_only ? 2 : 3, x->mounts[i].host_path,
                       x->mounts[i].box_path);
    if ((kinds & BACKEND_LATE_LIMITS) != 0)
        h += hash_u64(hash_u64(hash_u64(x->memory + 4) + x->cpus) + x->pids);
    if ((kinds & BACKEND_SNAPSHOT) != 0)
        h += hash_pair(5, x->snapshot, "");
    return h != 0 ? h : 1;
}

static const char *put_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *to = *at;

    memcpy(to, text, size);
    *at += size;
    return to;
}

static size_t optional_size(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

static size_t text_len(const struct backend_extras *x)
{
    size_t len = 0;

    for (size_t i = 0; i < x->env_count; i++)
        len += strlen(x->envs[i].name) + strlen(x->envs[i].value) + 2;
    for (size_t i = 0; i < x->mount_count; i++)
        len += strlen(x->mounts[i].host_path) + strlen(x->mounts[i].box_path) + 2 +
               optional_size(x->mounts[i].base) + optional_size(x->mounts[i].parts) +
               optional_size(x->mounts[i].holder) + optional_size(x->mounts[i].closed);
    return len + optional_size(x->snapshot);
}

/* Everything behind the head: the variables, the mounts, the texts. */
struct backend_extras *backend_extras_copy(const struct backend_extras *x)
{
    size_t envs_size = x->env_count * sizeof(struct backend_env_var);
    size_t mounts_size = x->mount_count * sizeof(struct backend_mount);
    struct backend_extras *to = xcalloc(1, sizeof(*to) + envs_size + mounts_size + text_len(x));
    struct backend_env_var *envs = (struct backend_env_var *) (to + 1);
    struct backend_mount *mounts = (struct backend_mount *) (envs + x->env_count);
    char *at = (char *) (mounts + x->mount_count);

    *to = *x;
    to->envs = envs;
    to->mounts = mounts;
    for (size_t i = 0; i < x->env_count; i++) {
        envs[i].name = put_text(&at, x->envs[i].name);
        envs[i].value = put_text(&at, x->envs[i].value);
    }
    for (size_t i = 0; i < x->mount_count; i++) {
        mounts[i].host_path = put_text(&at, x->mounts[i].host_path);
        mounts[i].box_path = put_text(&at, x->mounts[i].box_path);
        mounts[i].is_read_only = x->mounts[i].is_read_only;
        if (x->mounts[i].base != NULL)
            mounts[i].base = put_text(&at, x->mounts[i].base);
        if (x->mounts[i].parts != NULL)
            mounts[i].parts = put_text(&at, x->mounts[i].parts);
        if (x->mounts[i].holder != NULL)
            mounts[i].holder = put_text(&at, x->mounts[i].holder);
        if (x->mounts[i].closed != NULL)
            mounts[i].closed = put_text(&at, x->mounts[i].closed);
        mounts[i].own_len = x->mounts[i].own_len;
    }
    if (x->snapshot != NULL)
        to->snapshot = put_text(&at, x->snapshot);
    return to;
}

static void put_closed(struct json_out *o, const char *lines)
{
    char dir[CONFIG_PATH_MAX + 1];

    json_begin_arr(o, "closed");
    while (*lines != '\0') {
        size_t len = strcspn(lines, "\n");

        if (str_copy_n(dir, sizeof(dir), lines, len))
            json_put_str(o, NULL, dir);
        lines += lines[len] == '\n' ? len + 1 : len;
    }
    json_end(o);
}

void backend_mount_put(struct json_out *o, const struct backend_mount *m)
{
    char own[CONFIG_PATH_MAX + 1];

    json_begin_obj(o, NULL);
    if (m->host_path[0] != '\0')
        json_put_str(o, "from", m->host_path);
    json_put_str(o, "to", m->box_path);
    json_put_bool(o, "ro", m->is_read_only);
    if (m->base != NULL) {
        json_put_str(o, "base", m->base);
        json_put_str(o, "parts", m->parts);
    }
    if (m->base != NULL && m->holder != NULL)
        json_put_str(o, "holder", m->holder);
    if (m->closed != NULL)
        put_closed(o, m->closed);
    if (m->own_len > 0 && str_copy_n(own, sizeof(own), m->host_path, m->own_len))
        json_put_str(o, "own", own);
    json_end(o);
}
