/* call.c - one call to the engine: its address, the version both sides speak, a deadline, and what an
 * answer means. The version is asked for once; calls that come before it is known wait for it. An
 * engine that did not answer may have been replaced by another version: it is asked again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/str.h"

enum {
    PATH_MAX_LEN = 256 * 1024, /* what is emptied in an image, and its record */
    VERSION_MINOR_MAX = 47,    /* what is used here has not changed up to this one */
    HELLO_MAX = 256 * 1024,
};

void docker_call_init(struct docker *d, struct call *c, const char *method)
{
    static const struct call_limits limits = {
        .path = PATH_MAX_LEN, .body = DOCKER_BODY_MAX, .answer = DOCKER_ANSWER_MAX};

    call_init(c, &d->closing, method, &limits);
}

void docker_call_put_filter(struct call *c, const char *const *labels)
{
    struct json_out j;
    struct buf text;

    buf_init(&text, PATH_MAX_LEN);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_begin_arr(&j, "label");
    for (; *labels != NULL; labels++)
        json_put_str(&j, NULL, *labels);
    json_end(&j);
    json_end(&j);
    json_out_finish(&j, &text);
    buf_puts(&c->path, "filters=");
    call_put(c, buf_str(&text));
    buf_fini(&text);
}

/* --- sending --- */

static void on_answer(struct call *c)
{
    int rc = c->http.op.result;

    if (rc != SP_OK && rc != SP_TIMEOUT && rc != SP_CANCELLED)
        docker_of_call(c)->version[0] = '\0';
}

static void send_call(struct call *c)
{
    struct docker *d = docker_of_call(c);
    char url[sizeof(d->url) + sizeof(d->version) + 2];

    (void) snprintf(url, sizeof(url), c == &d->hello ? "%s" : "%s/v%s", d->url, d->version);
    c->http.unix_socket = str_is_empty(d->socket) ? NULL : d->socket;
    c->http.tls = d->is_tls ? &d->tls : NULL;
    c->on_answer = on_answer;
    call_send(c, d->http, url);
}

static void on_call_cancel(struct op *op)
{
    struct call *c = container_of(op, struct call, op);

    if (list_is_linked(&c->link)) {
        list_remove(&docker_of_call(c)->awaiting_version, &c->link);
        closing_finish(c->closing, op, SP_CANCELLED, NULL);
    } else {
        op_cancel(&c->http.op);
    }
}

/* --- the version --- */

/* "1.41" is more than "1.9". */
static int choose_version(struct docker *d, const char *theirs, struct err *err)
{
    uint64_t minor = 0;

    if (theirs == NULL || strncmp(theirs, "1.", 2) != 0 ||
        !str_parse_u64(theirs + 2, 1, 9999, &minor))
        return err_set(err, SP_PROTOCOL, "the server at %.100s is not a Docker engine", d->address);
    (void) snprintf(d->version, sizeof(d->version), "1.%u",
                    MIN_OF((unsigned) minor, (unsigned) VERSION_MINOR_MAX));
    return SP_OK;
}

static bool says_podman(const struct json *version)
{
    const struct json *parts = json_get(version, "Components");
    bool is_podman = false;

    for (size_t i = 0; i < json_len(parts); i++) {
        const char *name = json_str(json_get(json_at(parts, i), "Name"));

        is_podman = is_podman || (name != NULL && strncmp(name, "Podman", 6) == 0);
    }
    return is_podman;
}

static void on_hello(struct op *op)
{
    struct docker *d = container_of(op, struct docker, hello.op);
    struct json_doc *doc = NULL;
    struct list waiting;
    struct err err;
    int rc = docker_call_json(&d->hello, &doc, &err);

    if (rc == SP_OK)
        rc = choose_version(d, json_str(json_get(json_root(doc), "ApiVersion")), &err);
    if (rc == SP_OK)
        d->is_podman = says_podman(json_root(doc));
    (void) json_doc_free(doc);
    list_move(&d->awaiting_version, &waiting);
    while (!list_is_empty(&waiting)) {
        struct call *c = container_of(list_pop_front(&waiting), struct call, link);

        if (rc == SP_OK)
            send_call(c);
        else
            closing_finish(&d->closing, &c->op, rc, &err);
    }
}

static void say_hello(struct docker *d)
{
    if (!op_is_idle(&d->hello.op))
        return; /* on_hello() sees to all that wait, also when it is already on its way */
    docker_call_init(d, &d->hello, "GET");
    buf_puts(&d->hello.path, "/version");
    d->hello.http.response_max = HELLO_MAX;
    call_begin(&d->hello, rt_after(rt_now(&d->loop->rt), d->call_ns), on_call_cancel, on_hello);
    send_call(&d->hello);
}

void docker_call_start_long(struct call *c, uint64_t extra_ns, uint64_t deadline_ns,
                            void (*on_done)(struct op *))
{
    struct docker *d = docker_of_call(c);
    uint64_t limit_ns = rt_after(rt_now(&d->loop->rt), d->call_ns + extra_ns);

    /* A stream has no end of its own. */
    call_begin(c, c->http.on_data != NULL ? deadline_ns : MIN_OF(limit_ns, deadline_ns),
               on_call_cancel, on_done);
    if (!str_is_empty(d->version)) {
        send_call(c);
        return;
    }
    list_push_back(&d->awaiting_version, &c->link);
    say_hello(d);
}

void docker_call_start(struct call *c, uint64_t deadline_ns, void (*on_done)(struct op *))
{
    docker_call_start_long(c, 0, deadline_ns, on_done);
}

/* --- answers --- */

bool docker_call_is_unsent(const struct call *c)
{
    return !c->is_sent || c->op.result == SP_CONNECT_FAILED;
}

static int status_code(int status)
{
    if ((status >= 200 && status < 300) || status == 304)
        return SP_OK;
    if (status == 404)
        return SP_NOT_FOUND;
    return status == 409 ? ERR_TAKEN : SP_BACKEND_FAILED;
}

int docker_call_result(const struct call *c, struct err *err)
{
    const struct buf *body = &c->http.response;
    int rc;
    struct json_doc *doc;
    const char *message;

    if (c->op.result == SP_PROTOCOL || c->op.result == SP_TIMEOUT || c->op.result == SP_CANCELLED ||
        c->op.result == SP_BACKEND_UNAVAILABLE) {
        if (err != NULL)
            *err = c->op.err;
        return c->op.result;
    }
    if (c->op.result != SP_OK)
        return err_set(err, SP_BACKEND_UNAVAILABLE, "the engine at %.80s: %.100s",
                       docker_of_call(c)->address, c->op.err.msg);
    rc = status_code(c->http.status);
    if (rc == SP_OK)
        return SP_OK;
    doc = json_parse(buf_str(body), body->len, DOCKER_ANSWER_MAX, NULL);
    message = doc != NULL ? json_str(json_get(json_root(doc), "message")) : NULL;
    rc = err_set(err, rc, "the engine answered %d: %.160s", c->http.status,
                 message != NULL ? message : "");
    (void) json_doc_free(doc);
    return rc;
}

int docker_call_json(const struct call *c, struct json_doc **ret, struct err *err)
{
    int rc = docker_call_result(c, err);

    if (rc != SP_OK)
        return rc;
    *ret = json_parse(buf_str(&c->http.response), c->http.response.len, DOCKER_ANSWER_MAX, err);
    return *ret != NULL ? SP_OK : err_wrap(err, "the engine's answer");
}
