/* plan_read.c - decodes plans. Nothing is trusted for its shape; what it may name (the kinds of
 * paths, the cgroup) is narrowed here so that a wrong plan cannot do harm elsewhere. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/egress.h"
#include "base/mem.h"
#include "helper/plan_field.h"
#include "helper/plan_mounts.h"
#include "helper/plan_read.h"

#define TEXT_MAX (1024u * 1024)
#define CGROUP_PREFIX "/sandpool-"
#define CONTAINER_ID_LEN 64u

static int get_allow(const struct json *obj, struct plan *p, struct err *err)
{
    const struct json *list;
    size_t len;
    int rc = plan_get_list(obj, "allow", PLAN_LIST_MAX, &list, &len, err);

    if (rc != SP_OK || list == NULL)
        return rc;
    p->allow = xcalloc(len + 1, sizeof(*p->allow));
    for (size_t i = 0; i < len; i++) {
        p->allow[i] = json_str(json_at(list, i));
        if (p->allow[i] == NULL || !plan_is_clean_path(p->allow[i]))
            return err_set(err, SP_INVALID_FIELD, "'allow' must be a list of absolute paths");
    }
    p->allow_count = len;
    return SP_OK;
}

static int read_owned(const struct json *v, const struct plan *p, void *ret, struct err *err)
{
    struct plan_owned *o = ret;
    int rc;

    if ((rc = plan_need_path(v, "path", &o->path, err)) != SP_OK ||
        (rc = plan_need_u32(v, "id", 0, p->id_count - 1, &o->id, err)) != SP_OK)
        return rc;
    return plan_need_u32(v, "mode", 0, 01777, &o->mode, err);
}

static int read_file(const struct json *v, const struct plan *p, void *ret, struct err *err)
{
    struct plan_file *f = ret;
    int rc = plan_need_path(v, "path", &f->path, err);

    (void) p;
    return rc == SP_OK ? plan_need_str(v, "text", TEXT_MAX, &f->text, err) : rc;
}

/* Names of files, not paths. */
static int read_limit(const struct json *v, const struct plan *p, void *ret, struct err *err)
{
    struct plan_limit *l = ret;
    int rc;

    (void) p;
    if ((rc = plan_need_str(v, "file", 64, &l->file, err)) != SP_OK ||
        (rc = plan_need_str(v, "value", 64, &l->value, err)) != SP_OK)
        return rc;
    if (strchr(l->file, '/') != NULL || strchr(l->file, '.') == NULL)
        return err_set(err, SP_INVALID_FIELD, "'file' is wrong");
    return SP_OK;
}

/* The lists whose entries are objects of their own; what is there is freed by plan_fini(), also after an error. */
static int get_entries(const struct json *obj, struct plan *p, struct err *err)
{
    static const struct plan_entries owned = {"owned", sizeof(*p->owned), read_owned};
    static const struct plan_entries files = {"files", sizeof(*p->files), read_file};
    static const struct plan_entries limits = {"limits", sizeof(*p->limits), read_limit};
    int rc = SP_OK;

    p->owned = plan_get_entries(obj, p, &owned, &p->owned_count, &rc, err);
    if (rc == SP_OK)
        p->files = plan_get_entries(obj, p, &files, &p->file_count, &rc, err);
    if (rc == SP_OK)
        p->limits = plan_get_entries(obj, p, &limits, &p->limit_count, &rc, err);
    return rc;
}

/* Processes in the cgroup are killed: nothing but "/sandpool-<instance>/<box>" will do, for ordinary users below a group of
 * theirs. */
static bool is_group_of_box(const char *path)
{
    size_t prefix = strlen(CGROUP_PREFIX);
    const char *at = geteuid() == 0 ? path : strstr(path, CGROUP_PREFIX);

    return at != NULL && strncmp(at, CGROUP_PREFIX, prefix) == 0 &&
           strchr(at + prefix, '/') != NULL;
}

static int get_cgroup(const struct json *obj, struct plan *p, struct err *err)
{
    int rc = plan_get_path(obj, "cgroup", &p->cgroup, err);

    if (rc == SP_OK && p->cgroup != NULL && !is_group_of_box(p->cgroup))
        return err_set(err, SP_INVALID_FIELD, "'cgroup' must be '%s<instance>/<box>'",
                       CGROUP_PREFIX);
    return rc;
}

static int get_traces(const struct json *obj, struct plan *p, struct err *err)
{
    int rc;

    if ((rc = plan_get_args(obj, "delete", &p->remove, err)) != SP_OK ||
        (rc = get_cgroup(obj, p, err)) != SP_OK)
        return rc;
    return plan_get_path(obj, "runtime_state", &p->runtime_state, err);
}

static int get_ids(const struct json *obj, struct plan *p, struct err *err)
{
    int rc;

    if ((rc = plan_need_u32(obj, "id_base", 0, UINT32_MAX - 65536, &p->id_base, err)) != SP_OK ||
        (rc = plan_need_u32(obj, "id_count", 1, 65536, &p->id_count, err)) != SP_OK ||
        (rc = plan_need_u32(obj, "user_id", 0, 65535, &p->user_id, err)) != SP_OK)
        return rc;
    if (p->user_id >= p->id_count)
        return err_set(err, SP_INVALID_FIELD, "'user_id' must be smaller than 'id_count'");
    p->owner_uid = p->id_base + p->user_id;
    p->owner_gid = p->owner_uid;
    return SP_OK;
}

static int get_disk(const struct json *obj, struct plan *p, struct err *err)
{
    int rc = json_field_u64(obj, "disk", 0, 1ULL << 44, &p->disk, err);

    if (rc != SP_OK || p->disk == 0)
        return rc;
    return plan_need_path(obj, "disk_template", &p->disk_template, err);
}

/* A program reads its networks, so what they are is checked here once more. */
static int get_egress(const struct json *obj, struct plan *p, struct err *err)
{
    char why[EGRESS_WHY_MAX];
    int rc = json_field_str(obj, "egress", EGRESS_TEXT_MAX, &p->egress, err);

    if (rc != SP_OK || p->egress == NULL)
        return rc;
    if (!egress_check(p->egress, why))
        return err_set(err, SP_INVALID_FIELD, "'egress' %s", why);
    return plan_need_path(obj, "nft", &p->nft, err);
}

int plan_read_egress(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "dir", &p->dir, err)) != SP_OK ||
        (rc = get_egress(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (p->egress == NULL)
        return err_set(err, SP_INVALID_FIELD, "plan: 'egress' is missing");
    return SP_OK;
}

int plan_read_run(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "dir", &p->dir, err)) != SP_OK ||
        (rc = plan_need_str(o, "record", TEXT_MAX, &p->record, err)) != SP_OK ||
        (rc = plan_need_str(o, "spec", TEXT_MAX, &p->spec, err)) != SP_OK ||
        (rc = plan_need_path(o, "stage", &p->stage, err)) != SP_OK ||
        (rc = plan_need_path(o, "lower", &p->lower, err)) != SP_OK ||
        (rc = json_field_bool(o, "map_lower", &p->is_lower_mapped, err)) != SP_OK ||
        (rc = plan_get_layers(o, p, err)) != SP_OK || (rc = get_ids(o, p, err)) != SP_OK ||
        (rc = get_disk(o, p, err)) != SP_OK ||
        (rc = json_field_bool(o, "durable", &p->is_durable, err)) != SP_OK ||
        (rc = get_entries(o, p, err)) != SP_OK ||
        (rc = plan_get_mounts(o, "binds", true, false, &p->binds, &p->bind_count, err)) != SP_OK ||
        (rc = plan_get_mounts(o, "mounts", false, false, &p->mounts, &p->mount_count, err)) !=
            SP_OK ||
        (rc = get_allow(o, p, err)) != SP_OK ||
        (rc = plan_get_args(o, "runtime", &p->runtime, err)) != SP_OK ||
        (rc = plan_get_args(o, "network", &p->network, err)) != SP_OK ||
        (rc = get_egress(o, p, err)) != SP_OK ||
        (rc = plan_get_path(o, "connect", &p->connect, err)) != SP_OK ||
        (rc = plan_get_path(o, "guard", &p->guard, err)) != SP_OK ||
        (rc = json_field_u64(o, "sockets", 0, 1U << 20, &p->sockets, err)) != SP_OK ||
        (rc = plan_get_path(o, "user_ns", &p->user_ns, err)) != SP_OK ||
        (rc = json_field_u64(o, "max_files", 0, 1U << 20, &p->max_files, err)) != SP_OK ||
        (rc = get_traces(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (p->limits != NULL && p->cgroup == NULL)
        return err_set(err, SP_INVALID_FIELD, "plan: 'limits' need a 'cgroup'");
    if (p->egress != NULL && p->network == NULL)
        return err_set(err, SP_INVALID_FIELD, "plan: 'egress' needs a 'network'");
    if (p->runtime == NULL)
        return err_set(err, SP_INVALID_FIELD, "plan: 'runtime' is missing");
    if (p->is_durable && p->disk == 0)
        return err_set(err, SP_INVALID_FIELD, "plan: 'durable' needs a 'disk'");
    if (p->connect != NULL &&
        (strrchr(p->connect, '/') == p->connect || p->id_base < 65536 || p->id_count < 2))
        return err_set(err, SP_INVALID_FIELD,
                       "plan: 'connect' needs a directory and a range of ids");
    if (plan_path_is_below(p->dir, p->stage))
        return err_set(err, SP_INVALID_FIELD, "plan: 'dir' must not be below 'stage'");
    return SP_OK;
}

int plan_get_box(const struct json *obj, struct plan *p, struct err *err)
{
    int rc = json_field_str(obj, "container", CONTAINER_ID_LEN, &p->container, err);

    if (rc != SP_OK)
        return rc;
    if (p->container == NULL) {
        rc = plan_need_path(obj, "dir", &p->dir, err);
        return rc == SP_OK ? get_ids(obj, p, err) : rc;
    }
    if (strlen(p->container) != CONTAINER_ID_LEN ||
        strspn(p->container, "0123456789abcdef") != CONTAINER_ID_LEN)
        return err_set(err, SP_INVALID_FIELD, "'container' must be 64 hex digits");
    return plan_get_path(obj, "program", &p->program, err);
}

int plan_read_mount(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    uint32_t pid = 0;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_get_box(o, p, err)) != SP_OK ||
        (rc = plan_need_u32(o, "pid", 2, INT32_MAX, &pid, err)) != SP_OK ||
        (rc = plan_get_mounts(o, "mounts", false, true, &p->mounts, &p->mount_count, err)) !=
            SP_OK ||
        (rc = get_allow(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    p->pid = (int) pid;
    return SP_OK;
}

/* No character that has a meaning in the options of an overlay. */
static int get_places(const struct json *obj, struct plan *p, struct err *err)
{
    const struct json *list;
    int rc = plan_get_list(obj, "places", PLAN_PLACES_MAX, &list, &p->place_count, err);

    if (rc != SP_OK)
        return rc;
    for (size_t i = 0; i < p->place_count; i++) {
        p->places[i] = json_str(json_at(list, i));
        if (p->places[i] == NULL || !plan_is_clean_path(p->places[i]) ||
            strcmp(p->places[i], "/") == 0 || strpbrk(p->places[i], ",:\\") != NULL)
            return err_set(err, SP_INVALID_FIELD,
                           "'places' must be a list of absolute paths without , : and \\");
    }
    return SP_OK;
}

int plan_read_disk(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    uint32_t pid = 0;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_get_box(o, p, err)) != SP_OK ||
        (rc = plan_need_u32(o, "pid", 2, INT32_MAX, &pid, err)) != SP_OK ||
        (rc = plan_need_path(o, "dir", &p->dir, err)) != SP_OK ||
        (rc = get_disk(o, p, err)) != SP_OK || (rc = get_places(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (p->container == NULL || p->disk == 0)
        return err_set(err, SP_INVALID_FIELD, "plan: 'container' and 'disk' are needed");
    p->pid = (int) pid;
    return SP_OK;
}

int plan_read_remove(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "dir", &p->dir, err)) != SP_OK ||
        (rc = get_traces(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    return SP_OK;
}

int plan_read_capture(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "dir", &p->dir, err)) != SP_OK ||
        (rc = plan_need_path(o, "to", &p->to, err)) != SP_OK ||
        (rc = plan_need_path(o, "stage", &p->stage, err)) != SP_OK ||
        (rc = get_cgroup(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (p->cgroup == NULL)
        return err_set(err, SP_INVALID_FIELD, "plan: 'cgroup' is missing");
    return SP_OK;
}

int plan_read_keep(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "dir", &p->dir, err)) != SP_OK ||
        (rc = plan_need_path(o, "to", &p->to, err)) != SP_OK ||
        (rc = plan_need_path(o, "stage", &p->stage, err)) != SP_OK ||
        (rc = get_traces(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    return SP_OK;
}

int plan_read_freeze(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = json_field_bool(o, "frozen", &p->is_frozen, err)) != SP_OK ||
        (rc = get_cgroup(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (p->cgroup == NULL)
        return err_set(err, SP_INVALID_FIELD, "plan: 'cgroup' is missing");
    return SP_OK;
}

/* Of a box of our own by its group, of a container by its process. */
int plan_read_reclaim(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    uint32_t pid = 0;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK || (rc = get_cgroup(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (p->cgroup != NULL)
        return SP_OK;
    if (json_get(o, "container") == NULL)
        return err_set(err, SP_INVALID_FIELD, "plan: 'cgroup' or 'container' is missing");
    if ((rc = plan_get_box(o, p, err)) != SP_OK ||
        (rc = plan_need_u32(o, "pid", 2, INT32_MAX, &pid, err)) != SP_OK)
        return err_wrap(err, "plan");
    p->pid = (int) pid;
    return SP_OK;
}

int plan_read_relay(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "dir", &p->dir, err)) != SP_OK ||
        (rc = plan_need_u32(o, "id", 0, UINT32_MAX - 1, &p->id_base, err)) != SP_OK ||
        (rc = get_cgroup(o, p, err)) != SP_OK)
        return err_wrap(err, "plan");
    return SP_OK;
}

static bool is_user_name(const char *s)
{
    size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-");

    return len > 0 && len <= 32 && s[len] == '\0' && s[0] != '-' && (s[0] < '0' || s[0] > '9') &&
           strcmp(s, "root") != 0 && strcmp(s, "nobody") != 0;
}

int plan_read_base(struct plan *p, const char *text, size_t len, struct err *err)
{
    const struct json *o = NULL;
    int rc;

    if ((rc = plan_parse(p, text, len, &o, err)) != SP_OK ||
        (rc = plan_need_path(o, "dir", &p->dir, err)) != SP_OK ||
        (rc = plan_need_str(o, "user", 64, &p->user, err)) != SP_OK ||
        (rc = plan_need_u32(o, "user_id", 1, 65533, &p->user_id, err)) != SP_OK)
        return err_wrap(err, "plan");
    if (!is_user_name(p->user))
        return err_set(err, SP_INVALID_FIELD, "plan: 'user' is not a valid user name: '%.64s'",
                       p->user);
    return SP_OK;
}

void plan_fini(struct plan *p)
{
    p->doc = json_doc_free(p->doc);
    free(p->layers);
    free(p->owned);
    free(p->files);
    free(p->binds);
    free(p->mounts);
    free(p->allow);
    free(p->runtime);
    free(p->network);
    free(p->limits);
    free(p->remove);
    *p = (struct plan){0};
}
