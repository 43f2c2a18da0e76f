/* rebase.c - a hibernated sandbox comes back on the image that its profile has now (on_drift: rebase). Its snapshot is an image on the
 * old one: so its container is made of the new one, and before it is started sandpool-helper puts into its own layer what the
 * snapshot has above the old one. Where that cannot be it comes back on the old one. */
#include <stdlib.h>
#include <string.h>

#include "backends/docker/making.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"

enum { PLAN_MAX = 256 * 1024, LAYERS_MAX = 16 };

static const char *path_of(const struct json *shown, const char *which)
{
    return json_str(json_get(json_get(json_get(shown, "GraphDriver"), "Data"), which));
}

static size_t depth_of(const struct json *image)
{
    return json_len(json_get(json_get(image, "RootFS"), "Layers"));
}

/* --- is it to be? --- */

static void judge(struct making *m)
{
    struct docker_rebase *r = &m->rebase;
    const struct json *image = json_root(r->snapshot);
    const char *driver = json_str(json_get(json_get(image, "GraphDriver"), "Name"));
    bool is_hibernated = false;

    r->layers = docker_snapshot_layers(json_get(json_get(image, "Config"), "Labels"), r->base,
                                       &is_hibernated);
    r->is_wanted = is_hibernated && r->layers > 0 && !str_is_empty(r->base) && driver != NULL &&
                   strncmp(driver, "overlay", 7) == 0 && path_of(image, "UpperDir") != NULL;
}

static void on_looked(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct err err;

    m->rebase.is_looked = true;
    if (docker_call_json(&m->call, &m->rebase.snapshot, &err) == SP_OK)
        judge(m); /* else whoever needs the image says what is wrong with it */
    if (m->request == NULL)
        making_finish(m, SP_CANCELLED, NULL);
    else
        making_want_image(m);
}

bool rebase_looks(struct making *m, const char *snapshot)
{
    const struct config_profile *p = m->request->profile;

    if (m->rebase.is_looked || p->on_drift != CONFIG_DRIFT_REBASE || !str_is_empty(p->snapshot) ||
        docker_mount_check(m->docker, NULL) != SP_OK)
        return false;
    m->step = MAKING_CALLS;
    docker_call_init(m->docker, &m->call, "GET");
    buf_printf(&m->call.path, "/images/%s/json", snapshot);
    docker_call_start(&m->call, RT_NEVER, on_looked);
    return true;
}

void rebase_compare(struct making *m, const char *snapshot)
{
    if (!m->rebase.is_wanted || strcmp(m->image.id, m->rebase.base) != 0)
        return;
    m->rebase.is_wanted = false;
    str_copy_cut(m->image_name, sizeof(m->image_name), snapshot);
}

/* --- its files --- */

static void give_up(struct making *m, const struct err *err)
{
    struct buf body = m->body;

    log_warn("docker.not_rebased", LF_HEX("box", m->box->entry.id), LF_STR("reason", err->msg));
    m->rebase.is_wanted = false;
    m->body = m->rebase.old_body;
    m->rebase.old_body = body;
    if (!making_is_over(m))
        making_again(m, m->box->container);
}

static void on_copied(struct op *op)
{
    struct making *m = container_of(op, struct making, rebase.child.op);
    struct docker_rebase *r = &m->rebase;
    struct err err = op->err;
    int rc = op->result;

    FAULT_POINT("rebase.filled");
    if (rc == SP_OK && r->child.exit_code != 0)
        rc = child_explain(&r->child, "sandpool-helper gather", &err);
    child_fini(&r->child);
    r->is_done = rc == SP_OK;
    if (rc != SP_OK)
        give_up(m, &err);
    else
        making_go_on(m);
}

/* The uppermost layers of the snapshot. */
static void put_layers(const struct json *image, size_t count, struct json_out *j)
{
    const char *lower = path_of(image, "LowerDir");
    char path[DOCKER_PATH_MAX];

    json_begin_arr(j, "from");
    json_put_str(j, NULL, path_of(image, "UpperDir"));
    for (size_t i = 1; i < count && lower != NULL && *lower != '\0'; i++) {
        size_t len = strcspn(lower, ":");

        if (str_copy_n(path, sizeof(path), lower, len))
            json_put_str(j, NULL, path);
        lower += len + (lower[len] == ':');
    }
    json_end(j);
}

static void copy_files(struct making *m, size_t count)
{
    struct docker_rebase *r = &m->rebase;
    struct json_out j;

    buf_init(&r->plan, PLAN_MAX);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    put_layers(json_root(r->snapshot), count, &j);
    json_put_str(&j, "to", r->to);
    json_put_u64(&j, "reserve", m->docker->reserve);
    json_end(&j);
    json_out_finish(&j, &r->plan);
    r->argv[0] = m->docker->helper;
    r->argv[1] = "gather";
    r->child = (struct child){
        .argv = r->argv, .input = buf_str(&r->plan), .input_len = r->plan.len, .pass_fd = -1};
    child_start(m->docker->loop, &r->child, &m->docker->closing.inner, RT_NEVER, on_copied);
}

/* The old image may have been removed, but for its layers. */
static void on_base(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct docker_rebase *r = &m->rebase;
    size_t depth = depth_of(json_root(r->snapshot));
    size_t count = r->layers;
    struct json_doc *doc = NULL;
    struct err err;

    if (docker_call_json(&m->call, &doc, &err) == SP_OK)
        count = depth - MIN_OF(depth, depth_of(json_root(doc)));
    (void) json_doc_free(doc);
    if (making_is_over(m))
        return;
    if (count == 0 || count >= depth || count > LAYERS_MAX) {
        (void) err_set(&err, SP_UNSUPPORTED, "%zu of %zu layers are not those of a snapshot", count,
                       depth);
        give_up(m, &err);
        return;
    }
    copy_files(m, count);
}

static void on_seen(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct docker_rebase *r = &m->rebase;
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&m->call, &doc, &err);
    const char *to = rc == SP_OK ? path_of(json_root(doc), "UpperDir") : NULL;

    if (rc == SP_OK && (to == NULL || !str_copy(r->to, sizeof(r->to), to)))
        rc = err_set(&err, SP_UNSUPPORTED, "the engine does not say where its files are");
    (void) json_doc_free(doc);
    if (making_is_over(m))
        return;
    if (rc != SP_OK) {
        give_up(m, &err);
        return;
    }
    docker_call_init(m->docker, &m->call, "GET");
    buf_printf(&m->call.path, "/images/%s/json", r->base);
    docker_call_start(&m->call, RT_NEVER, on_base);
}

bool making_rebases(struct making *m)
{
    if (!m->rebase.is_wanted || m->rebase.is_done)
        return false;
    FAULT_POINT("rebase.made");
    docker_call_init(m->docker, &m->call, "GET");
    buf_printf(&m->call.path, "/containers/%s/json", m->box->container);
    docker_call_start(&m->call, RT_NEVER, on_seen);
    return true;
}

void rebase_fini(struct making *m)
{
    (void) json_doc_free(m->rebase.snapshot);
    buf_fini(&m->rebase.plan);
    buf_fini(&m->rebase.old_body);
}
