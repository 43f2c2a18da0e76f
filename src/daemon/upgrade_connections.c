/* upgrade_connections.c - connections between two servers. */
#include "daemon/upgrade_connections.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

struct loading {
    struct list *cargo;
    const char *server;
};

struct cargo_conn *cargo_add(struct list *cargo, const char *server, int fd)
{
    struct cargo_conn *c = xcalloc(1, sizeof(*c));

    str_copy_cut(c->server, sizeof(c->server), server); /* a longer one is no server of ours */
    c->fd = fd;
    buf_init(&c->bytes, CARGO_BYTES_MAX);
    list_push_back(cargo, &c->link);
    return c;
}

static void cargo_free(struct list *cargo, struct cargo_conn *c)
{
    list_remove(cargo, &c->link);
    buf_fini(&c->bytes);
    free(c);
}

static void take(void *ctx, int fd, const char *bytes, size_t len)
{
    const struct loading *loading = ctx;
    struct cargo_conn *c = cargo_add(loading->cargo, loading->server, fd);

    buf_append(&c->bytes, bytes, len);
    if (!buf_failed(&c->bytes))
        return;
    log_warn("daemon.connection_dropped", LF_STR("server", c->server), LF_U64("bytes", len));
    (void) close(fd); /* its request would be lost without an error */
    cargo_free(loading->cargo, c);
}

void cargo_load(struct list *cargo, struct servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++) {
        struct loading loading = {.cargo = cargo, .server = servers->items[i].name};

        http_server_migrate(servers->items[i].http, take, &loading);
    }
}

size_t cargo_unload(struct list *cargo, struct servers *servers)
{
    size_t served = 0;

    for (struct list_node *n = list_pop_front(cargo); n != NULL; n = list_pop_front(cargo)) {
        struct cargo_conn *c = container_of(n, struct cargo_conn, link);
        const struct server *server = servers_find(servers, c->server);
        struct err err;

        if (server == NULL || buf_failed(&c->bytes)) {
            log_warn("daemon.connection_dropped", LF_STR("server", c->server));
            (void) close(c->fd); /* nobody serves it */
        } else if (http_server_adopt(server->http, c->fd, buf_str(&c->bytes), c->bytes.len, &err) !=
                   SP_OK) {
            log_warn("daemon.connection_dropped", LF_STR("reason", err.msg));
        } else {
            served++;
        }
        cargo_free(cargo, c);
    }
    return served;
}

void cargo_drop(struct list *cargo)
{
    for (struct list_node *n = list_pop_front(cargo); n != NULL; n = list_pop_front(cargo)) {
        struct cargo_conn *c = container_of(n, struct cargo_conn, link);

        (void) close(c->fd); /* another process may have it too */
        cargo_free(cargo, c);
    }
}
