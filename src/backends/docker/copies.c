/* copies.c - containers that were to become snapshots, of a daemon that died meanwhile or of an engine that was away. The box of one may
 * stand still for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker/capturing.h"
#include "base/mem.h"
#include "base/str.h"

struct sweeping {
    struct call call;
    struct docker *docker;
    struct json_doc *list;
    size_t next;
};

static void sweep_next(struct sweeping *s);

static void end(struct sweeping *s)
{
    struct docker *d = s->docker;

    d->is_sweeping_copies = false;
    (void) json_doc_free(s->list);
    call_fini(&s->call);
    free(s);
    closing_settle(&d->closing);
}

static bool is_under_way(struct docker *d, const struct json *entry)
{
    const char *name = json_str(json_at(json_get(entry, "Names"), 0));
    char hex[17];

    for (struct list_node *n = list_first(&d->captures); name != NULL && n != NULL;
         n = list_next(&d->captures, n)) {
        str_hex64(hex, container_of(n, struct capturing, link)->request->snapshot.id);
        if (strstr(name, hex) != NULL)
            return true;
    }
    return false;
}

static void on_removed(struct op *op)
{
    struct sweeping *s = container_of(op, struct sweeping, call.op);
    struct err err;
    int rc = docker_call_result(&s->call, &err);

    if (rc != SP_OK && rc != SP_NOT_FOUND)
        s->docker->has_old_copies = true;
    s->next++;
    sweep_next(s);
}

/* It may run, or not exist any more: then the engine refuses. Without an answer all is tried again later. */
static void on_resumed(struct op *op)
{
    struct sweeping *s = container_of(op, struct sweeping, call.op);

    if (op->result != SP_OK) {
        s->docker->has_old_copies = true;
        end(s);
        return;
    }
    docker_call_init(s->docker, &s->call, "DELETE");
    buf_printf(&s->call.path, "/containers/%.64s?force=1&v=1",
               json_str(json_get(json_at(json_root(s->list), s->next), "Id")));
    docker_call_start(&s->call, RT_NEVER, on_removed);
}

static void sweep_next(struct sweeping *s)
{
    const struct json *list = json_root(s->list);
    const struct json *entry;

    while (s->next < json_len(list) && (is_under_way(s->docker, json_at(list, s->next)) ||
                                        json_str(json_get(json_at(list, s->next), "Id")) == NULL))
        s->next++;
    if (s->next >= json_len(list) || s->docker->closing.is_closing) {
        end(s);
        return;
    }
    entry = json_at(list, s->next);
    docker_call_init(s->docker, &s->call, "POST");
    buf_puts(&s->call.path, "/containers/");
    call_put(&s->call, docker_label(json_get(entry, "Labels"), DOCKER_COPY_OF));
    buf_puts(&s->call.path, "/unpause");
    docker_call_start(&s->call, RT_NEVER, on_resumed);
}

static void on_listed(struct op *op)
{
    struct sweeping *s = container_of(op, struct sweeping, call.op);
    struct err err;

    if (docker_call_json(&s->call, &s->list, &err) == SP_OK) {
        sweep_next(s);
        return;
    }
    s->docker->has_old_copies = true;
    end(s);
}

void docker_copies_sweep(struct docker *d)
{
    char label[BACKEND_LABEL_MAX + 40];
    const char *labels[] = {label, NULL};
    struct sweeping *s;

    if (!d->has_old_copies || d->is_sweeping_copies || d->closing.is_closing)
        return;
    d->has_old_copies = false;
    d->is_sweeping_copies = true;
    s = xcalloc(1, sizeof(*s));
    s->docker = d;
    (void) snprintf(label, sizeof(label), DOCKER_COPY "=%s", d->instance);
    docker_call_init(d, &s->call, "GET");
    buf_puts(&s->call.path, "/containers/json?all=1&");
    docker_call_put_filter(&s->call, labels);
    docker_call_start(&s->call, RT_NEVER, on_listed);
}
