/* snapshots.c - snapshots are images of the engine. One that counts has a tag of ours that names it. An engine keeps an image
 * while containers or other images need it: then the tag is replaced by one that says so, and the image is collected
 * after a later listing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/snapshot.h"
#include "backends/docker/internal.h"
#include "base/base64.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"

#define REPOSITORY "sandpool-snapshot"
#define DELETED REPOSITORY "-deleted"

enum { RECORD_MAX = 32 * 1024 };

void docker_snapshot_name(uint64_t id, char ret[DOCKER_SNAPSHOT_NAME_MAX])
{
    char hex[17];

    str_hex64(hex, id);
    (void) snprintf(ret, DOCKER_SNAPSHOT_NAME_MAX, REPOSITORY ":%s", hex);
}

bool docker_image_digest(const char *id, char ret[SNAPSHOT_DIGEST_MAX + 1])
{
    if (strncmp(id, "sha256:", 7) == 0)
        id += 7;
    if (strlen(id) != 64)
        return false;
    (void) snprintf(ret, SNAPSHOT_DIGEST_MAX + 1, "sha256:%s", id);
    return true;
}

/* --- what there is --- */

static void ask_images(struct docker *d, struct call *c, void (*on_done)(struct op *))
{
    char label[BACKEND_LABEL_MAX + 40];
    const char *labels[] = {label, NULL};

    (void) snprintf(label, sizeof(label), LABEL("snapshot") "=%s", d->instance);
    docker_call_init(d, c, "GET");
    buf_puts(&c->path, "/images/json?");
    docker_call_put_filter(c, labels);
    docker_call_start(c, RT_NEVER, on_done);
}

/* Engines put a registry before a name. */
static bool has_tag(const struct json *image, const char *tag)
{
    const struct json *tags = json_get(image, "RepoTags");
    size_t len = strlen(tag);

    for (size_t i = 0; i < json_len(tags); i++) {
        const char *name = json_str(json_at(tags, i));
        size_t n = name != NULL ? strlen(name) : 0;

        if (name != NULL && n >= len && strcmp(name + n - len, tag) == 0 &&
            (n == len || name[n - len - 1] == '/'))
            return true;
    }
    return false;
}

static bool read_labels(const struct json *labels, struct snapshot *ret,
                        char ret_base[SNAPSHOT_DIGEST_MAX + 1])
{
    const char *text = docker_label(labels, LABEL("record"));
    struct json_doc *doc = NULL;
    struct buf record;
    const char *base;
    bool is_good;

    buf_init(&record, RECORD_MAX);
    if (base64_decode(text, strlen(text), &record) && !buf_failed(&record))
        doc = json_parse(buf_str(&record), record.len, RECORD_MAX, NULL);
    is_good = doc != NULL && snapshot_take(json_root(doc), ret);
    base = doc != NULL ? json_str(json_get(json_root(doc), "base")) : NULL;
    if (ret_base != NULL && (base == NULL || !docker_image_digest(base, ret_base)))
        ret_base[0] = '\0';
    (void) json_doc_free(doc);
    buf_fini(&record);
    return is_good;
}

static bool read_record(const struct json *image, struct snapshot *ret)
{
    const char *id = json_str(json_get(image, "Id"));

    return read_labels(json_get(image, "Labels"), ret, NULL) && id != NULL &&
           docker_image_digest(id, ret->digest);
}

uint64_t docker_snapshot_layers(const struct json *labels, char ret_base[SNAPSHOT_DIGEST_MAX + 1],
                                bool *ret_is_hibernated)
{
    struct snapshot *s = xcalloc(1, sizeof(*s));
    uint64_t layers = read_labels(labels, s, ret_base) ? s->layers : 0;

    if (ret_is_hibernated != NULL)
        *ret_is_hibernated = layers > 0 && s->is_hibernated;
    free(s);
    return layers;
}

/* False: nobody's any more. */
static bool read_image(const struct json *image, struct snapshot *ret)
{
    char name[DOCKER_SNAPSHOT_NAME_MAX];
    char deleted[DOCKER_SNAPSHOT_NAME_MAX + 16];

    if (!read_record(image, ret))
        return false;
    docker_snapshot_name(ret->id, name);
    (void) snprintf(deleted, sizeof(deleted), DELETED "%s", strchr(name, ':'));
    return has_tag(image, name) && !has_tag(image, deleted);
}

/* `priv` of the request. */
struct listing {
    struct call call;
    struct docker *docker;
    struct backend_snapshots *request;
};

static void on_listed(struct op *op)
{
    struct listing *l = container_of(op, struct listing, call.op);
    struct docker *d = l->docker;
    struct backend_snapshots *r = l->request;
    struct snapshot *s = xcalloc(1, sizeof(*s));
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&l->call, &doc, &err);

    for (size_t i = 0; rc == SP_OK && i < json_len(json_root(doc)); i++) {
        if (read_image(json_at(json_root(doc), i), s))
            *backend_snapshots_add(r) = *s;
        else
            d->has_old_snapshots = true;
    }
    free(s);
    (void) json_doc_free(doc);
    r->priv = NULL;
    call_fini(&l->call);
    free(l);
    closing_finish(&d->closing, &r->op, rc, &err);
}

static void on_list_cancel(struct op *op)
{
    struct listing *l = container_of(op, struct backend_snapshots, op)->priv;

    op_cancel(&l->call.op);
}

void docker_list_snapshots(struct backend *backend, struct backend_snapshots *r,
                           uint64_t deadline_ns, void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct listing *l = xcalloc(1, sizeof(*l));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_list_cancel, on_done);
    l->docker = d;
    l->request = r;
    r->priv = l;
    ask_images(d, &l->call, on_listed);
}

/* --- deleting --- */

/* `priv` of the request, which may be absent. */
struct dropping {
    struct call call;
    struct docker *docker;
    struct backend_drop *request; /* NULL: nobody waits */
    uint64_t id;
};

static void end_drop(struct dropping *p, int rc, const struct err *err)
{
    struct docker *d = p->docker;
    struct backend_drop *r = p->request;

    call_fini(&p->call);
    free(p);
    if (r == NULL) {
        closing_settle(&d->closing);
        return;
    }
    r->priv = NULL;
    closing_finish(&d->closing, &r->op, rc, err);
}

static void remove_tag(struct dropping *p, void (*on_done)(struct op *))
{
    char name[DOCKER_SNAPSHOT_NAME_MAX];

    docker_snapshot_name(p->id, name);
    docker_call_init(p->docker, &p->call, "DELETE");
    buf_printf(&p->call.path, "/images/%s?noprune=1", name);
    docker_call_start(&p->call, RT_NEVER, on_done);
}

/* The other tag counts, whether this one is gone or not. */
static void on_untagged(struct op *op)
{
    end_drop(container_of(op, struct dropping, call.op), SP_OK, NULL);
}

static void on_marked(struct op *op)
{
    struct dropping *p = container_of(op, struct dropping, call.op);
    struct err err;
    int rc = docker_call_result(&p->call, &err);

    FAULT_POINT("snapshot.marked");
    if (rc == SP_OK)
        remove_tag(p, on_untagged);
    else
        end_drop(p, rc == SP_NOT_FOUND ? SP_OK : rc, &err);
}

static void on_removed(struct op *op)
{
    struct dropping *p = container_of(op, struct dropping, call.op);
    char name[DOCKER_SNAPSHOT_NAME_MAX];
    struct err err;
    int rc = docker_call_result(&p->call, &err);

    p->docker->has_old_snapshots = true; /* the image may stay without a tag */
    if (rc != ERR_TAKEN) {
        end_drop(p, rc == SP_NOT_FOUND ? SP_OK : rc, &err);
        return;
    }
    docker_snapshot_name(p->id, name);
    docker_call_init(p->docker, &p->call, "POST");
    buf_printf(&p->call.path, "/images/%s/tag?repo=" DELETED "&tag=%s", name,
               strchr(name, ':') + 1);
    docker_call_start(&p->call, RT_NEVER, on_marked);
}

static void start_drop(struct docker *d, uint64_t id, struct backend_drop *r)
{
    struct dropping *p = xcalloc(1, sizeof(*p));

    p->docker = d;
    p->request = r;
    p->id = id;
    if (r != NULL)
        r->priv = p;
    remove_tag(p, on_removed);
}

void docker_snapshot_remove(struct docker *d, uint64_t id)
{
    start_drop(d, id, NULL);
}

static void on_drop_cancel(struct op *op)
{
    struct dropping *p = container_of(op, struct backend_drop, op)->priv;

    op_cancel(&p->call.op);
}

void docker_drop(struct backend *backend, struct backend_drop *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_drop_cancel, on_done);
    start_drop(d, r->id, r);
}

/* --- images that nobody needs any more --- */

struct collecting {
    struct call call;
    struct docker *docker;
    struct json_doc *images;
    size_t next;
};

static void collect_next(struct collecting *c);

static void on_collected(struct op *op)
{
    struct collecting *c = container_of(op, struct collecting, call.op);
    struct err err;
    int rc = docker_call_result(&c->call, &err);

    if (rc != SP_OK && rc != SP_NOT_FOUND)
        c->docker->has_old_snapshots = true; /* still in use, or the engine is away */
    collect_next(c);
}

static void end_collect(struct collecting *c)
{
    struct docker *d = c->docker;

    d->is_collecting = false;
    (void) json_doc_free(c->images);
    call_fini(&c->call);
    free(c);
    closing_settle(&d->closing);
}

/* By its id: without force the engine refuses while something needs it. One with both tags first loses ours. */
static void collect_next(struct collecting *c)
{
    const struct json *list = json_root(c->images);
    struct snapshot *s = xcalloc(1, sizeof(*s));
    char name[DOCKER_SNAPSHOT_NAME_MAX] = "";
    const struct json *image = NULL;

    while (c->next < json_len(list) && image == NULL) {
        image = json_at(list, c->next++);
        if (read_image(image, s) || json_str(json_get(image, "Id")) == NULL)
            image = NULL;
    }
    if (image == NULL || c->docker->closing.is_closing) {
        free(s);
        end_collect(c);
        return;
    }
    if (read_record(image, s))
        docker_snapshot_name(s->id, name);
    free(s);
    docker_call_init(c->docker, &c->call, "DELETE");
    if (!str_is_empty(name) && has_tag(image, name)) {
        buf_printf(&c->call.path, "/images/%s?noprune=1", name);
        c->docker->has_old_snapshots = true; /* the rest goes the next time */
    } else {
        buf_printf(&c->call.path, "/images/%.100s?noprune=1", json_str(json_get(image, "Id")));
    }
    docker_call_start(&c->call, RT_NEVER, on_collected);
}

static void on_old_listed(struct op *op)
{
    struct collecting *c = container_of(op, struct collecting, call.op);
    struct err err;

    if (docker_call_json(&c->call, &c->images, &err) == SP_OK) {
        collect_next(c);
        return;
    }
    c->docker->has_old_snapshots = true;
    end_collect(c);
}

void docker_snapshots_collect(struct docker *d)
{
    struct collecting *c;

    if (!d->has_old_snapshots || d->is_collecting || d->closing.is_closing)
        return;
    d->has_old_snapshots = false;
    d->is_collecting = true;
    c = xcalloc(1, sizeof(*c));
    c->docker = d;
    ask_images(d, &c->call, on_old_listed);
}
