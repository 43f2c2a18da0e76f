/* capture.c - a snapshot is an image that the engine makes in one call that also labels it with the record: it is whole or it does not
 * exist. It is made of a copy of the box (gather.c). Where there can be none, the engine pauses the box and makes it of
 * that; such an image takes the variables and labels of its container along, and those that came with the box, its
 * token first of all, are emptied in the same call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/snapshot.h"
#include "backends/docker/capturing.h"
#include "base/base64.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"

#define COMMIT_NS (10 * 60 * NS_PER_S)

enum {
    RECORD_MAX = 32 * 1024,
    DEPTH_MAX = 120, /* Docker makes no more than 125 */
};

static void end(struct capturing *c)
{
    struct docker *d = c->docker;
    struct backend_capture *r = c->request;

    list_remove(&d->captures, &c->link);
    if (c->is_committing && c->result != SP_OK)
        docker_snapshot_remove(d, r->snapshot.id); /* it may have been made */
    r->priv = NULL;
    closing_finish(&d->closing, &r->op, c->result, &c->err);
    for (unsigned i = 0; i < COPY_COUNT; i++)
        (void) json_doc_free(c->copies[i].shown);
    (void) json_doc_free(c->container);
    (void) json_doc_free(c->image);
    call_fini(&c->call);
    buf_fini(&c->plan);
    free(c);
}

static void finish(struct capturing *c, int rc, const struct err *err)
{
    c->result = rc;
    if (rc != SP_OK)
        c->err = *err;
    c->on_removed = end;
    gather_remove(c);
}

/* --- what the image must not have --- */

static void put_change(struct call *c, const char *kind, const char *name, const char *value)
{
    buf_puts(&c->path, "&changes=");
    call_put(c, kind);
    call_put(c, name);
    call_put(c, "=");
    call_put(c, value);
}

/* An engine reads a change as a line of a Dockerfile. */
static bool is_plain(const char *text)
{
    static const char extra[] = "_./:+,@%=~-";

    for (; *text != '\0'; text++) {
        if (!(*text >= 'a' && *text <= 'z') && !(*text >= 'A' && *text <= 'Z') &&
            !(*text >= '0' && *text <= '9') && strchr(extra, *text) == NULL)
            return false;
    }
    return true;
}

/* The entry of a list of variables that has this name; NULL: there is none. */
static const char *find_env(const struct json *list, const char *name, size_t len)
{
    for (size_t i = 0; i < json_len(list); i++) {
        const char *entry = json_str(json_at(list, i));

        if (entry != NULL && strncmp(entry, name, len) == 0 && entry[len] == '=')
            return entry;
    }
    return NULL;
}

/* What Podman itself adds to a container. */
static bool is_of_engine(const char *name)
{
    static const char *const names[] = {"HOME", "HOSTNAME", "TERM", "container"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* What it is where nobody has set it; one that is empty would count as set. */
static const char *default_of(const char *name)
{
    return strcmp(name, "PATH") == 0
               ? "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
               : "";
}

/* Each variable is as in the image that the box was made from, or empty. */
static void put_envs(struct call *c, const struct json *of_box, const struct json *of_image)
{
    char name[512];

    for (size_t i = 0; i < json_len(of_box); i++) {
        const char *entry = json_str(json_at(of_box, i));
        size_t len = entry != NULL ? strcspn(entry, "=") : 0;
        const char *before = len > 0 ? find_env(of_image, entry, len) : NULL;

        if (len == 0 || !str_copy_n(name, sizeof(name), entry, len) || !is_plain(name) ||
            (before == NULL && is_of_engine(name)) ||
            (before != NULL && strcmp(before, entry) == 0))
            continue;
        put_change(c, "ENV ", name,
                   before != NULL && is_plain(before + len + 1) ? before + len + 1
                                                                : default_of(name));
    }
}

static void put_words(struct call *c, const char *kind, const struct json *words)
{
    struct buf text;

    buf_init(&text, RECORD_MAX);
    if (json_len(words) > 0)
        json_print(words, &text);
    else
        buf_puts(&text, "[]");
    buf_puts(&c->path, "&changes=");
    call_put(c, kind);
    call_put(c, buf_str(&text));
    buf_fini(&text);
}

/* What it runs, and as whom, is again what the image says that the box was made from; an engine that gets no program
 * keeps that of the box, and the create of the next one names its own. */
static void put_start(struct call *c, const struct json *of_box, const struct json *of_image)
{
    const char *now = json_str(json_get(of_box, "User"));
    const char *before = json_str(json_get(of_image, "User"));

    put_words(c, "ENTRYPOINT ", json_get(of_image, "Entrypoint"));
    put_words(c, "CMD ", json_get(of_image, "Cmd"));
    before = before != NULL && !str_is_empty(before) ? before : "0";
    if (now == NULL || strcmp(now, before) == 0 || !is_plain(before))
        return;
    buf_puts(&c->path, "&changes=");
    call_put(c, "USER ");
    call_put(c, before);
}

static void put_labels(struct call *c, const struct json *labels)
{
    const struct json *value;
    const char *name;

    for (size_t i = 0; json_member(labels, i, &name, &value); i++) {
        const char *text = json_str(value);

        if (strncmp(name, LABEL(""), strlen(LABEL(""))) == 0 && is_plain(name) &&
            strcmp(name, LABEL("snapshot")) != 0 && strcmp(name, LABEL("record")) != 0 &&
            text != NULL && !str_is_empty(text))
            put_change(c, "LABEL ", name, "");
    }
}

bool docker_snapshot_code(const struct snapshot *s, const char *base, struct buf *ret)
{
    struct json_out o;
    struct buf text;
    bool is_good;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    snapshot_put(&o, s);
    json_put_str(&o, "base", base);
    json_end(&o);
    buf_init(&text, RECORD_MAX);
    json_out_finish(&o, &text);
    base64_encode_url(buf_str(&text), text.len, ret);
    is_good = !buf_failed(&text) && !buf_failed(ret);
    buf_fini(&text);
    return is_good;
}

static bool put_record(struct call *c, const struct snapshot *s, const char *base)
{
    struct buf coded;
    bool is_good;

    buf_init(&coded, 2 * RECORD_MAX);
    is_good = docker_snapshot_code(s, base, &coded);
    put_change(c, "LABEL ", LABEL("snapshot"), s->instance);
    put_change(c, "LABEL ", LABEL("record"), buf_str(&coded));
    buf_fini(&coded);
    return is_good;
}

/* --- the steps --- */

static void on_committed(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, call.op);
    struct snapshot *s = &c->request->snapshot;
    struct json_doc *doc = NULL;
    const char *id;
    struct err err;
    int rc = docker_call_json(&c->call, &doc, &err);

    FAULT_POINT("snapshot.committed");
    id = rc == SP_OK ? json_str(json_get(json_root(doc), "Id")) : NULL;
    if (rc == SP_OK && (id == NULL || !docker_image_digest(id, s->digest)))
        rc = err_set(&err, SP_PROTOCOL, "the engine named no image");
    if (rc == SP_NOT_FOUND)
        rc = err_set(&err, SP_SANDBOX_LOST, "the box does not run");
    c->is_committing = rc != SP_OK && !docker_call_is_unsent(&c->call);
    (void) json_doc_free(doc);
    finish(c, rc == ERR_TAKEN ? SP_BACKEND_FAILED : rc, &err);
}

/* `subject`: the container, as the engine shows it. */
static void commit(struct capturing *c, const struct json *subject)
{
    const struct json *of_image = json_get(json_root(c->image), "Config");
    const struct json *config = json_get(subject, "Config");
    struct snapshot *s = &c->request->snapshot;
    struct err err;
    char name[DOCKER_SNAPSHOT_NAME_MAX];

    docker_call_init(c->docker, &c->call, "POST");
    docker_snapshot_name(s->id, name);
    *strchr(name, ':') = '\0';
    buf_printf(&c->call.path, "/commit?container=%.64s&pause=%s&repo=%s&tag=%s",
               json_str(json_get(subject, "Id")),
               subject == json_root(c->container) ? "true" : "false", name,
               name + strlen(name) + 1);
    put_envs(&c->call, json_get(config, "Env"), json_get(of_image, "Env"));
    put_labels(&c->call, json_get(config, "Labels"));
    if (c->image != NULL)
        put_start(&c->call, config, of_image);
    if (!put_record(&c->call, s, c->base) || buf_failed(&c->call.path)) {
        finish(c, err_set(&err, SP_TOO_BIG, "the variables of the box are too many"), &err);
        return;
    }
    buf_puts(&c->call.body, "{}"); /* Podman wants one */
    c->is_committing = true;
    docker_call_start_long(&c->call, COMMIT_NS, RT_NEVER, on_committed);
}

/* An image with more could be made, and no box from it. */
static bool is_too_deep(const struct capturing *c)
{
    return c->which != COPY_FLAT && gather_depth(json_root(c->image)) >= DEPTH_MAX;
}

static void on_gathered(struct capturing *c)
{
    struct err err;

    if (c->result == SP_UNSUPPORTED && !c->has_places) {
        log_warn("docker.not_copied", LF_HEX("box", c->request->box.labels.box_id),
                 LF_STR("reason", c->err.msg));
        c->which = COPY_OF_BOX;
    } else if (c->result != SP_OK) {
        finish(c, c->result, &c->err);
        return;
    }
    if (is_too_deep(c))
        finish(c,
               err_set(&err, SP_UNSUPPORTED,
                       "the image of the box has %d layers, which is all that an engine can have",
                       DEPTH_MAX),
               &err);
    else if (c->result != SP_OK || c->copies[c->which].shown == NULL)
        commit(c, json_root(c->container));
    else
        commit(c, json_root(c->copies[c->which].shown));
}

static void weigh(struct capturing *c)
{
    const struct json *config = json_get(json_root(c->image), "Config");
    struct snapshot *s = &c->request->snapshot;
    struct err err;

    if (s->parent == 0)
        s->layers = 1;
    else if (c->image != NULL)
        s->layers = docker_snapshot_layers(json_get(config, "Labels"), c->base, NULL);
    if (s->parent == 0 &&
        !docker_image_digest(json_str(json_get(json_root(c->container), "Image")), c->base))
        c->base[0] = '\0';
    if (s->parent != 0 && s->layers > 0)
        s->layers++;
    c->on_gathered = on_gathered;
    if (gather_is_possible(c))
        gather_start(c);
    else if (c->has_places)
        finish(c,
               err_set(&err, SP_UNSUPPORTED,
                       "snapshots of a box of a profile with `docker.disk: places` need an engine "
                       "that stores files by overlayfs"),
               &err);
    else
        on_gathered(c);
}

static void on_image(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, call.op);
    struct err err;
    int rc = docker_call_json(&c->call, &c->image, &err);

    if (rc == SP_OK || rc == SP_NOT_FOUND) /* removed by force: nothing is known of its variables */
        weigh(c);
    else
        finish(c, rc, &err);
}

static void on_container(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, call.op);
    struct snapshot *s = &c->request->snapshot;
    const struct json *labels;
    const struct json *root;
    struct docker_found f = {0};
    const char *image;
    struct err err;
    int rc = docker_call_json(&c->call, &c->container, &err);

    root = rc == SP_OK ? json_root(c->container) : NULL;
    if (rc == SP_OK)
        rc = docker_read_inspect(c->docker, root, &f, &err);
    image = json_str(json_get(root, "Image"));
    labels = json_get(json_get(root, "Config"), "Labels");
    c->has_places = rc == SP_OK && !str_is_empty(docker_label(labels, LABEL("disk")));
    if (rc == SP_NOT_FOUND || (rc == SP_OK && !f.is_running))
        rc = err_set(&err, SP_SANDBOX_LOST, "the box does not run");
    else if (rc == SP_OK && (image == NULL || f.box.labels.box_id != c->request->box.labels.box_id))
        rc = err_set(&err, SP_PROTOCOL, "the engine shows another container");
    if (rc != SP_OK) {
        finish(c, rc, &err);
        return;
    }
    if (!str_parse_hex64(docker_label(labels, LABEL("made_from")), &s->parent))
        s->parent = 0;
    if (json_get(root, "SizeRw") == NULL || !json_u64(json_get(root, "SizeRw"), &s->size))
        s->size = 0;
    docker_call_init(c->docker, &c->call, "GET");
    buf_printf(&c->call.path, "/images/%.100s/json", image);
    docker_call_start(&c->call, RT_NEVER, on_image);
}

/* What was made is removed all the same. */
static void on_cancel(struct op *op)
{
    struct capturing *c = container_of(op, struct backend_capture, op)->priv;

    if (c->on_removed != NULL)
        return; /* it ends */
    if (c->on_gathered != NULL && !c->is_committing)
        gather_cancel(c);
    else if (op_is_active(&c->call.op))
        op_cancel(&c->call.op);
}

void docker_capture(struct backend *backend, struct backend_capture *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    const struct docker_box *b = docker_box_find(d, r->box.labels.box_id);
    const char *container = b != NULL && !str_is_empty(b->container) ? b->container : r->box.ref;
    struct capturing *c = xcalloc(1, sizeof(*c));
    struct err err;

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_cancel, on_done);
    c->docker = d;
    c->request = r;
    r->priv = c;
    list_push_back(&d->captures, &c->link);
    if (docker_is_foreign(&r->box) || str_is_empty(container)) {
        finish(c, err_set(&err, SP_UNSUPPORTED, "the container is another program's"), &err);
        return;
    }
    docker_call_init(d, &c->call, "GET");
    buf_printf(&c->call.path, "/containers/%.64s/json?size=1", container);
    docker_call_start_long(&c->call, COMMIT_NS, RT_NEVER, on_container);
}
