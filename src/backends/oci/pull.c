/* pull.c - images on their way, one job for all who want the same. A job outlives the create that began
 * it; its result is only there while those who wait for it are woken, because asking again for an
 * image that has not changed costs one look at a file. */
#include <stdlib.h>
#include <string.h>

#include "backends/oci/image.h"
#include "backends/oci/internal.h"
#include "base/mem.h"
#include "base/str.h"

#define PULL_NS (30 * 60 * NS_PER_S)

struct pull {
    struct list_node link;
    struct oci_image image;
    struct oci *oci;
    char name[CONFIG_PATH_MAX + 1];
    char user[CONFIG_NAME_MAX + 1];
    bool is_slow; /* a notice said that it takes a while */
    bool is_done;
};

static void notify(struct pull *p, enum backend_notice_kind kind, const char *text)
{
    const struct backend_events *events = p->oci->events;
    struct backend_notice n = {.kind = kind, .image = p->name, .text = text};

    if (events != NULL && events->on_notice != NULL)
        events->on_notice(events->ctx, &n);
}

static void on_step(struct oci_image *image, const char *what)
{
    struct pull *p = container_of(image, struct pull, image);

    p->is_slow = true;
    notify(p, BACKEND_IMAGE_PULLING, what);
}

void oci_env_free(char **env)
{
    for (size_t i = 0; env != NULL && env[i] != NULL; i++)
        free(env[i]);
    free(env);
}

static char **copy_env(char **env)
{
    size_t count = 0;
    char **copy;

    while (env != NULL && env[count] != NULL)
        count++;
    copy = xcalloc(count + 1, sizeof(copy[0]));
    for (size_t i = 0; i < count; i++)
        copy[i] = xstrdup(env[i]);
    return copy;
}

static void on_pulled(struct op *op)
{
    struct pull *p = container_of(op, struct pull, image.op);
    struct oci *o = p->oci;

    if (op->result != SP_OK)
        notify(p, BACKEND_IMAGE_FAILED, op->err.msg);
    else if (p->is_slow)
        notify(p, BACKEND_IMAGE_PULLED, "");
    p->is_done = true;
    oci_wake(o);
    list_remove(&o->pulls, &p->link);
    oci_image_fini(&p->image);
    free(p);
    closing_settle(&o->closing);
}

static struct pull *find(struct oci *o, const struct config_profile *profile)
{
    for (struct list_node *n = list_first(&o->pulls); n != NULL; n = list_next(&o->pulls, n)) {
        struct pull *p = container_of(n, struct pull, link);

        if (strcmp(p->name, profile->image) == 0 && strcmp(p->user, profile->user) == 0)
            return p;
    }
    return NULL;
}

static void start(struct oci *o, const struct config_profile *profile)
{
    struct pull *p = xcalloc(1, sizeof(*p));

    p->oci = o;
    str_copy_cut(p->name, sizeof(p->name), profile->image);
    str_copy_cut(p->user, sizeof(p->user), profile->user);
    p->image.image = p->name;
    p->image.user = p->user;
    p->image.user_id = OCI_USER_ID;
    p->image.cache_dir = o->dir;
    p->image.on_step = on_step;
    list_push_back(&o->pulls, &p->link);
    oci_image_start(o->loop, &p->image, &o->closing.inner, rt_after(rt_now(&o->loop->rt), PULL_NS),
                    on_pulled);
}

int oci_pull(struct oci *o, const struct config_profile *profile, char rootfs[OCI_PATH_MAX],
             char ***ret_env, struct err *err)
{
    struct pull *p = find(o, profile);

    if (p == NULL)
        start(o, profile);
    if (p == NULL || !p->is_done)
        return ERR_NOT_READY;
    if (p->image.op.result != SP_OK) {
        *err = p->image.op.err;
        return p->image.op.result;
    }
    str_copy_cut(rootfs, OCI_PATH_MAX, p->image.rootfs);
    *ret_env = copy_env(p->image.env);
    return SP_OK;
}

void oci_pulls_cancel(struct oci *o)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&o->pulls); n != NULL; n = next) {
        next = list_next(&o->pulls, n);
        op_cancel(&container_of(n, struct pull, link)->image.op);
    }
}

int oci_lower(struct oci *o, const struct config_profile *p, char rootfs[OCI_PATH_MAX],
              char ***ret_env, const char **ret, struct err *err)
{
    *ret = p->rootfs;
    if (!str_is_empty(p->image)) {
        *ret = rootfs;
        return oci_pull(o, p, rootfs, ret_env, err);
    }
    if (strcmp(p->rootfs, "host") != 0)
        return SP_OK;
    *ret = o->base_dir;
    return oci_base_ready(o, err);
}
