/* image.c - is the image there, and what does it say of itself? Pulled as the profile wants it; one job for
 * all who want the same, which outlives the create that began it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/mem.h"
#include "base/str.h"
#include "loop/work.h"

#define PULL_NS (30 * 60 * NS_PER_S)
#define NOTIFY_NS (5 * NS_PER_S) /* between two notices about one pull */
#define FRESH_NS (60 * NS_PER_S) /* with `pull: always`: the registry is not asked again */

enum {
    PROGRESS_MAX = 256 * 1024,
    HEADER_MAX = 128 * 1024,
    LAYERS_MAX = 128,
    LAYER_ID_MAX = 31,
    WORDS_MAX = 120
};

struct layer {
    char id[LAYER_ID_MAX + 1];
    uint64_t done;
    uint64_t total;
};

struct docker_pull {
    struct list_node link;
    struct docker *docker;
    struct docker_source source;
    struct call call;
    struct work work; /* reads the registry's password */
    struct buf auth;  /* the header; "" for none */
    struct list waiters;
    struct docker_image image;
    struct err err;
    int result;
    bool is_pulling;
    bool was_pulled;
    bool is_ended;
    uint64_t notified_ns;
    char status[64];
    char failure[512]; /* what the engine said in the middle of its answer */
    struct layer layers[LAYERS_MAX];
    unsigned layer_count;
};

static void inspect(struct docker_pull *p);

void docker_source_of(const struct config_profile *p, struct docker_source *ret)
{
    str_copy_cut(ret->image, sizeof(ret->image), p->image);
    str_copy_cut(ret->auth_file, sizeof(ret->auth_file), p->docker.auth_file);
    ret->pull = p->docker.pull;
}

bool docker_source_equal(const struct docker_source *a, const struct docker_source *b)
{
    return a->pull == b->pull && strcmp(a->image, b->image) == 0 &&
           strcmp(a->auth_file, b->auth_file) == 0;
}

/* --- notices --- */

static void sum_up(const struct docker_pull *p, uint64_t *ret_done, uint64_t *ret_total)
{
    *ret_done = 0;
    *ret_total = 0;
    for (unsigned i = 0; i < p->layer_count; i++) {
        *ret_done += p->layers[i].done;
        *ret_total += p->layers[i].total;
    }
}

static void notify(struct docker_pull *p, enum backend_notice_kind kind, const char *text)
{
    struct backend_notice n = {.kind = kind, .image = p->source.image, .text = text};

    p->notified_ns = rt_now(&p->docker->loop->rt);
    sum_up(p, &n.done_bytes, &n.total_bytes);
    docker_notify(p->docker, &n);
}

void docker_image_describe(const struct docker_pull *p, struct err *err)
{
    uint64_t done;
    uint64_t total;

    sum_up(p, &done, &total);
    if (p->is_pulling)
        (void) err_set(err, SP_TIMEOUT, "image '%.120s' is still being pulled (%llu of %llu MB)",
                       p->source.image, (unsigned long long) (done / 1000000),
                       (unsigned long long) (total / 1000000));
    else
        (void) err_set(err, SP_TIMEOUT, "the engine has not answered about image '%.120s'",
                       p->source.image);
}

/* --- the end --- */

static void note_fetched(struct docker_pull *p)
{
    struct docker *d = p->docker;

    d->fetched[d->fetched_next].name = hash_str(p->source.image);
    d->fetched[d->fetched_next].at_ns = rt_now(&d->loop->rt);
    d->fetched_next = (d->fetched_next + 1) % DOCKER_FETCHED_MAX;
}

static bool is_fresh(const struct docker *d, const char *image)
{
    uint64_t name = hash_str(image);

    for (unsigned i = 0; i < DOCKER_FETCHED_MAX; i++)
        if (d->fetched[i].name == name && d->fetched[i].at_ns != 0 &&
            rt_now(&d->loop->rt) < rt_after(d->fetched[i].at_ns, FRESH_NS))
            return true;
    return false;
}

static void end(struct docker_pull *p, int rc, const struct err *err)
{
    struct docker *d = p->docker;

    p->result = rc;
    if (rc != SP_OK) {
        p->err = *err;
        /* Else the engine is away, which is reported elsewhere. */
        if (rc == SP_BACKEND_FAILED || rc == SP_CONFIG || p->is_pulling)
            notify(p, BACKEND_IMAGE_FAILED, err->msg);
    }
    p->is_ended = true;
    list_remove(&d->pulls, &p->link); /* who comes now begins anew */
    waiter_resume_all(&p->waiters);
    call_fini(&p->call);
    buf_fini(&p->auth);
    free(p);
    closing_settle(&d->closing);
}

/* --- the pull: an answer of many JSON objects, one per line --- */

static struct layer *find_layer(struct docker_pull *p, const char *id)
{
    for (unsigned i = 0; i < p->layer_count; i++)
        if (strcmp(p->layers[i].id, id) == 0)
            return &p->layers[i];
    if (p->layer_count == LAYERS_MAX || strlen(id) > LAYER_ID_MAX)
        return NULL;
    str_copy_cut(p->layers[p->layer_count].id, LAYER_ID_MAX + 1, id);
    return &p->layers[p->layer_count++];
}

/* Unpacking counts again from zero: only what is fetched is counted. */
static void take_layer(struct docker_pull *p, const struct json *line, const char *status)
{
    const char *id = json_str(json_get(line, "id"));
    const struct json *detail = json_get(line, "progressDetail");
    struct layer *l;
    uint64_t done = 0;
    uint64_t total = 0;

    if (id == NULL || strncmp(status, "Download", 8) != 0)
        return;
    l = find_layer(p, id);
    if (l == NULL)
        return;
    if (json_get(detail, "total") != NULL && json_u64(json_get(detail, "total"), &total) &&
        json_get(detail, "current") != NULL && json_u64(json_get(detail, "current"), &done)) {
        l->total = total;
        l->done = done;
    }
    if (strcmp(status, "Download complete") == 0)
        l->done = l->total;
}

static void take_line(struct docker_pull *p, const char *line, size_t len)
{
    struct json_doc *doc = json_parse(line, len, PROGRESS_MAX, NULL);
    const struct json *root = doc != NULL ? json_root(doc) : NULL;
    const char *failure = json_str(json_get(root, "error"));
    const char *status = json_str(json_get(root, "status"));

    if (failure != NULL)
        str_copy_cut(p->failure, sizeof(p->failure), failure);
    if (status != NULL) {
        take_layer(p, root, status);
        str_copy_cut(p->status, sizeof(p->status), status);
        if (rt_now(&p->docker->loop->rt) >= rt_after(p->notified_ns, NOTIFY_NS))
            notify(p, BACKEND_IMAGE_PULLING, p->status);
    }
    (void) json_doc_free(doc);
}

static void on_progress(struct httpc_request *r)
{
    struct call *c = container_of(r, struct call, http);
    struct docker_pull *p = container_of(c, struct docker_pull, call);
    struct buf *text = &c->http.response;

    if (c->http.status != 200)
        return; /* one object, read at the end */
    for (;;) {
        const char *end_of_line = text->len > 0 ? memchr(text->data, '\n', text->len) : NULL;

        if (end_of_line == NULL)
            return;
        take_line(p, text->data, (size_t) (end_of_line - text->data));
        buf_consume(text, (size_t) (end_of_line - text->data) + 1);
    }
}

/* What counts of a long chain of errors stands at its end; its links are joined by ": ". */
static const char *last_words(const char *text)
{
    size_t len = strlen(text);
    const char *end = len > WORDS_MAX ? text + len - WORDS_MAX : text;
    const char *link = len > WORDS_MAX ? strstr(end, ": ") : NULL;

    return link != NULL ? link + 2 : end;
}

static void on_pulled(struct op *op)
{
    struct docker_pull *p = container_of(op, struct docker_pull, call.op);
    struct buf *rest = &p->call.http.response;
    struct err err;
    int rc = docker_call_result(&p->call, &err);

    if (rc == SP_OK && rest->len > 0)
        take_line(p, rest->data, rest->len); /* a last line without its end */
    if (rc == SP_NOT_FOUND || rc == SP_BACKEND_FAILED)
        str_copy_cut(p->failure, sizeof(p->failure), err.msg);
    if ((rc == SP_OK && !str_is_empty(p->failure)) || rc == SP_NOT_FOUND || rc == SP_BACKEND_FAILED)
        rc = err_set(&err, SP_BACKEND_FAILED, "pull failed: %s (image '%.80s')",
                     last_words(p->failure), p->source.image);
    if (rc != SP_OK) {
        end(p, rc, &err);
        return;
    }
    p->is_pulling = false;
    p->was_pulled = true;
    note_fetched(p);
    notify(p, BACKEND_IMAGE_PULLED, "");
    inspect(p);
}

/* Without a tag the engine would fetch all there are. */
static void send_pull(struct docker_pull *p)
{
    const char *name = p->source.image;
    const char *slash = strrchr(name, '/');
    const char *colon = strrchr(name, ':');
    bool has_tag = colon != NULL && (slash == NULL || colon > slash);

    docker_call_init(p->docker, &p->call, "POST");
    buf_puts(&p->call.path, "/images/create?fromImage=");
    call_put(&p->call, name);
    if (!has_tag && strchr(name, '@') == NULL)
        buf_puts(&p->call.path, "&tag=latest");
    call_header(&p->call, p->auth.len > 0 ? buf_str(&p->auth) : NULL);
    p->call.http.on_data = on_progress;
    p->call.http.response_max = PROGRESS_MAX;
    docker_call_start(&p->call, rt_after(rt_now(&p->docker->loop->rt), PULL_NS), on_pulled);
}

static int read_auth(struct work *w, struct err *err)
{
    struct docker_pull *p = container_of(w, struct docker_pull, work);

    return docker_auth_read(p->source.auth_file, p->source.image, &p->auth, err);
}

static void on_auth(struct op *op)
{
    struct docker_pull *p = container_of(op, struct docker_pull, work.op);

    if (op->result == SP_OK && !p->docker->closing.is_closing)
        send_pull(p);
    else
        end(p, op->result != SP_OK ? op->result : SP_CANCELLED, &op->err);
}

static void pull(struct docker_pull *p)
{
    p->is_pulling = true;
    notify(p, BACKEND_IMAGE_PULLING, "begins");
    if (str_is_empty(p->source.auth_file)) {
        send_pull(p);
        return;
    }
    p->work.run = read_auth;
    work_start(p->docker->loop, &p->work, &p->docker->closing.inner, RT_NEVER, on_auth);
}

/* --- what it says of itself --- */

static void on_inspected(struct op *op)
{
    struct docker_pull *p = container_of(op, struct docker_pull, call.op);
    struct json_doc *doc = NULL;
    const struct json *config;
    const char *work_dir;
    const char *user;
    const char *id;
    struct err err;
    int rc = docker_call_json(&p->call, &doc, &err);

    if (rc == SP_NOT_FOUND && !p->was_pulled && !p->docker->closing.is_closing &&
        p->source.pull != CONFIG_PULL_NEVER) {
        pull(p);
        return;
    }
    if (rc == SP_NOT_FOUND)
        rc = err_set(&err, SP_BACKEND_FAILED, "the engine has no image '%.120s'%s", p->source.image,
                     p->was_pulled ? ", though it was pulled" : ", and docker.pull is never");
    if (rc == SP_OK) {
        config = json_get(json_root(doc), "Config");
        work_dir = json_str(json_get(config, "WorkingDir"));
        user = json_str(json_get(config, "User"));
        id = json_str(json_get(json_root(doc), "Id"));
        str_copy_cut(p->image.work_dir, sizeof(p->image.work_dir),
                     work_dir != NULL ? work_dir : "");
        str_copy_cut(p->image.user, sizeof(p->image.user), user != NULL ? user : "");
        if (id == NULL || !docker_image_digest(id, p->image.id))
            p->image.id[0] = '\0';
    }
    (void) json_doc_free(doc);
    end(p, rc, &err);
}

static void inspect(struct docker_pull *p)
{
    docker_call_init(p->docker, &p->call, "GET");
    buf_printf(&p->call.path, "/images/%s/json", p->source.image);
    docker_call_start(&p->call, RT_NEVER, on_inspected);
}

struct docker_pull *docker_image_get(struct docker *d, const struct docker_source *source,
                                     struct waiter *w)
{
    struct docker_pull *p = NULL;

    for (struct list_node *n = list_first(&d->pulls); n != NULL; n = list_next(&d->pulls, n)) {
        p = container_of(n, struct docker_pull, link);
        if (docker_source_equal(&p->source, source))
            break;
        p = NULL;
    }
    if (p == NULL) {
        p = xcalloc(1, sizeof(*p));
        p->docker = d;
        p->source = *source;
        list_init(&p->waiters);
        buf_init(&p->auth, HEADER_MAX);
        list_push_back(&d->pulls, &p->link);
        if (source->pull == CONFIG_PULL_ALWAYS && !is_fresh(d, source->image))
            pull(p);
        else
            inspect(p);
    }
    list_push_back(&p->waiters, &w->link);
    return p;
}

int docker_image_result(const struct docker_pull *p, struct docker_image *ret, struct err *err)
{
    assert(p->is_ended);
    *ret = p->image;
    if (p->result != SP_OK)
        *err = p->err;
    return p->result;
}

void docker_image_leave(struct docker_pull *p, struct waiter *w)
{
    list_remove(&p->waiters, &w->link);
}

void docker_images_cancel(struct docker *d)
{
    for (struct list_node *n = list_first(&d->pulls); n != NULL; n = list_next(&d->pulls, n))
        if (op_is_active(&container_of(n, struct docker_pull, link)->call.op))
            op_cancel(&container_of(n, struct docker_pull, link)->call.op);
}
