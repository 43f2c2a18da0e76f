/* servers.c - one loop over the servers for each thing that happens to all of them. */
#include "daemon/servers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct server *servers_add(struct servers *s, const char *name, struct http_server *http)
{
    struct server *server = &s->items[s->count];

    assert(s->count < SERVERS_MAX);
    *server = (struct server){.name = name, .http = http};
    s->count++;
    return server;
}

struct server *servers_find(struct servers *s, const char *name)
{
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->items[i].name, name) == 0)
            return &s->items[i];
    return NULL;
}

static int accept_from(struct server *server, const struct listener_socket *socket, struct err *err)
{
    int fd = fcntl(socket->fd, F_DUPFD_CLOEXEC, 3);

    if (fd < 0)
        return err_sys(err, SP_IO, errno, "listen on '%s'", socket->name);
    return http_server_listen_fd(server->http, fd, err);
}

int servers_listen(struct server *server, struct listener_socket *socket, struct err *err)
{
    assert(server->socket_count < SERVER_LISTENERS_MAX);
    server->sockets[server->socket_count] = socket;
    server->socket_count++;
    return accept_from(server, socket, err);
}

void servers_set_limits(struct servers *s, const struct http_limits *limits)
{
    for (unsigned i = 0; i < s->count; i++)
        http_server_set_limits(s->items[i].http, limits);
}

void servers_pause(struct servers *s)
{
    for (unsigned i = 0; i < s->count; i++)
        http_server_pause(s->items[i].http);
}

int servers_resume(struct servers *s, struct err *err)
{
    int r = SP_OK;

    for (unsigned i = 0; i < s->count && r == SP_OK; i++) {
        http_server_resume(s->items[i].http);
        for (unsigned k = 0; k < s->items[i].socket_count && r == SP_OK; k++)
            r = accept_from(&s->items[i], s->items[i].sockets[k], err);
    }
    return r;
}

size_t servers_cut_unread(struct servers *s)
{
    size_t count = 0;

    for (unsigned i = 0; i < s->count; i++)
        count += http_server_cut_unread(s->items[i].http);
    return count;
}

void servers_get_pending(const struct servers *s, struct http_pending *ret)
{
    *ret = (struct http_pending){0};
    for (unsigned i = 0; i < s->count; i++) {
        struct http_pending one;

        http_server_get_pending(s->items[i].http, &one);
        ret->busy += one.busy;
        ret->repeatable += one.repeatable;
        ret->staying += one.staying;
    }
}

size_t servers_connections(const struct servers *s)
{
    size_t sum = 0;

    for (unsigned i = 0; i < s->count; i++)
        sum += http_server_connections(s->items[i].http);
    return sum;
}

void servers_stop(struct servers *s)
{
    for (unsigned i = 0; i < s->count; i++)
        http_server_stop(s->items[i].http);
}

static void on_one_closed(void *ctx)
{
    struct servers *s = ctx;

    s->left--;
    if (s->left > 0)
        return;
    s->count = 0;
    s->on_closed(s->ctx);
}

void servers_close(struct servers *s, void (*on_closed)(void *ctx), void *ctx)
{
    s->on_closed = on_closed;
    s->ctx = ctx;
    s->left = s->count;
    if (s->count == 0)
        on_closed(ctx);
    for (unsigned i = 0; i < s->count; i++) /* their ends come later, from the run queue */
        http_server_close(s->items[i].http, on_one_closed, s);
}

void servers_leave(struct servers *s,
                   void (*leave)(void *ctx, struct http_server *http, void (*on_quiet)(void *ctx),
                                 void *quiet_ctx),
                   void *leave_ctx, void (*on_quiet)(void *ctx), void *ctx)
{
    s->on_closed = on_quiet;
    s->ctx = ctx;
    s->left = s->count;
    for (unsigned i = 0; i < s->count; i++) /* they are quiet later, from the run queue */
        leave(leave_ctx, s->items[i].http, on_one_closed, s);
}
