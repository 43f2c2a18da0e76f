/* image.c - is the image there, and what does it say of itself? Pulled when it is missing; one job for
 * all who want the same, which outlives the create that began it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "docker/internal.h"

#define PULL_NS (30 * 60 * NS_PER_S)
#define TELL_NS (5 * NS_PER_S) /* between two lines of the log about one pull */

enum { PROGRESS_MAX = 256 * 1024 };

struct docker_pull {
    struct list_node link;
    struct docker *docker;
    struct docker_call call;
    struct list waiters;
    struct docker_image image;
    struct err err;
    int result;
    bool was_pulled;
    bool is_ended;
    uint64_t told_ns;
    char name[CONFIG_PATH_MAX + 1];
    char failure[200]; /* what the engine said in the middle of its answer */
};

static void inspect(struct docker_pull *p);

static void end(struct docker_pull *p, int rc, const struct err *err)
{
    struct docker *d = p->docker;

    p->result = rc;
    if (rc != SP_OK) {
        p->err = *err;
        log_warn("docker.image_failed", LF_STR("image", p->name), LF_STR("reason", err->msg));
    }
    p->is_ended = true;
    list_remove(&d->pulls, &p->link); /* who comes now begins anew */
    while (!list_is_empty(&p->waiters)) {
        struct docker_waiter *w =
            container_of(list_pop_front(&p->waiters), struct docker_waiter, link);

        w->resume(w);
    }
    docker_call_fini(&p->call);
    free(p);
    docker_settle(d);
}

/* --- the pull: an answer of many JSON objects, one per line --- */

static void take_line(struct docker_pull *p, const char *line, size_t len)
{
    struct json_doc *doc = json_parse(line, len, PROGRESS_MAX, NULL);
    const struct json *root = doc != NULL ? json_root(doc) : NULL;
    const char *failure = json_str(json_get(root, "error"));
    const char *status = json_str(json_get(root, "status"));
    const char *progress = json_str(json_get(root, "progress"));
    uint64_t now_ns = rt_now(&p->docker->loop->rt);

    if (failure != NULL)
        str_copy_cut(p->failure, sizeof(p->failure), failure);
    if (status != NULL && now_ns >= rt_after(p->told_ns, TELL_NS)) {
        p->told_ns = now_ns;
        log_info("docker.pulling", LF_STR("image", p->name), LF_STR("status", status),
                 LF_STR("progress", progress != NULL ? progress : ""));
    }
    (void) json_doc_free(doc);
}

static void on_progress(struct docker_call *c)
{
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

static void on_pulled(struct op *op)
{
    struct docker_pull *p = container_of(op, struct docker_pull, call.op);
    struct err err;
    int rc = docker_call_result(&p->call, &err);

    if (rc == SP_OK && !str_is_empty(p->failure))
        rc = err_set(&err, SP_BACKEND_FAILED, "image '%.80s' cannot be pulled: %.110s", p->name,
                     p->failure);
    if (rc == SP_OK)
        log_info("docker.pulled", LF_STR("image", p->name));
    p->was_pulled = true;
    if (rc == SP_OK)
        inspect(p);
    else
        end(p, rc, &err);
}

/* Without a tag the engine would fetch all there are. */
static void pull(struct docker_pull *p)
{
    const char *slash = strrchr(p->name, '/');
    const char *colon = strrchr(p->name, ':');
    bool has_tag = colon != NULL && (slash == NULL || colon > slash);

    log_info("docker.pull", LF_STR("image", p->name));
    docker_call_init(p->docker, &p->call, "POST");
    buf_puts(&p->call.path, "/images/create?fromImage=");
    docker_call_put(&p->call, p->name);
    if (!has_tag && strchr(p->name, '@') == NULL)
        buf_puts(&p->call.path, "&tag=latest");
    p->call.on_data = on_progress;
    p->call.answer_max = PROGRESS_MAX;
    docker_call_start(&p->call, rt_after(rt_now(&p->docker->loop->rt), PULL_NS), on_pulled);
}

/* --- what it says of itself --- */

static void on_inspected(struct op *op)
{
    struct docker_pull *p = container_of(op, struct docker_pull, call.op);
    struct json_doc *doc = NULL;
    const struct json *config;
    const char *work_dir;
    const char *user;
    struct err err;
    int rc = docker_call_json(&p->call, &doc, &err);

    if (rc == SP_NOT_FOUND && !p->was_pulled && !p->docker->is_closing) {
        pull(p);
        return;
    }
    if (rc == SP_OK) {
        config = json_get(json_root(doc), "Config");
        work_dir = json_str(json_get(config, "WorkingDir"));
        user = json_str(json_get(config, "User"));
        str_copy_cut(p->image.work_dir, sizeof(p->image.work_dir),
                     work_dir != NULL ? work_dir : "");
        str_copy_cut(p->image.user, sizeof(p->image.user), user != NULL ? user : "");
    }
    (void) json_doc_free(doc);
    end(p, rc, &err);
}

static void inspect(struct docker_pull *p)
{
    docker_call_init(p->docker, &p->call, "GET");
    buf_printf(&p->call.path, "/images/%s/json", p->name);
    docker_call_start(&p->call, RT_NEVER, on_inspected);
}

struct docker_pull *docker_image_get(struct docker *d, const char *name, struct docker_waiter *w)
{
    struct docker_pull *p = NULL;

    for (struct list_node *n = list_first(&d->pulls); n != NULL; n = list_next(&d->pulls, n)) {
        p = container_of(n, struct docker_pull, link);
        if (strcmp(p->name, name) == 0)
            break;
        p = NULL;
    }
    if (p == NULL) {
        p = xcalloc(1, sizeof(*p));
        p->docker = d;
        list_init(&p->waiters);
        str_copy_cut(p->name, sizeof(p->name), name);
        list_push_back(&d->pulls, &p->link);
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

void docker_image_leave(struct docker_pull *p, struct docker_waiter *w)
{
    list_remove(&p->waiters, &w->link);
}

void docker_images_cancel(struct docker *d)
{
    for (struct list_node *n = list_first(&d->pulls); n != NULL; n = list_next(&d->pulls, n))
        op_cancel(&container_of(n, struct docker_pull, link)->call.op);
}
