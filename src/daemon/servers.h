/* servers.h - the daemon's HTTP servers, by name, as one: paused, handed over, stopped and closed
 * together. */
#ifndef DAEMON_SERVERS_H
#define DAEMON_SERVERS_H

#include "daemon/listeners.h"
#include "http/http.h"

enum { SERVERS_MAX = 4, SERVER_LISTENERS_MAX = 4 };

/* The name goes with a connection to the successor, whose server of that name goes on with it. */
#define SERVER_API "api"
#define SERVER_PROVISIONER "provisioner"

struct servers {
    struct server {
        const char *name; /* static */
        struct http_server *http;
        struct listener_socket *sockets[SERVER_LISTENERS_MAX];
        unsigned socket_count;
    } items[SERVERS_MAX];
    unsigned count;
    unsigned left; /* not closed yet */
    void (*on_closed)(void *ctx);
    void *ctx;
};

/* Takes the server over. */
struct server *servers_add(struct servers *s, const char *name, struct http_server *http);
/* NULL when there is none. */
struct server *servers_find(struct servers *s, const char *name);
/* Accepts from this socket, which stays whose it is and must stay where it is. */
MUST_CHECK int servers_listen(struct server *server, struct listener_socket *socket,
                              struct err *err);
void servers_set_limits(struct servers *s, const struct http_limits *limits);

/* As in http.h, all of them. */
void servers_pause(struct servers *s);
MUST_CHECK int servers_resume(struct servers *s, struct err *err);
/* http_server_cut_unread() of all. */
size_t servers_cut_unread(struct servers *s);
void servers_get_pending(const struct servers *s, struct http_pending *ret);
size_t servers_connections(const struct servers *s);
void servers_stop(struct servers *s);
/* Calls `leave` for each, which sees to it that on_quiet() comes (see http_server_leave()); `on_quiet` of all
 * comes after that. They are somebody else's then. */
void servers_leave(struct servers *s,
                   void (*leave)(void *ctx, struct http_server *http, void (*on_quiet)(void *ctx),
                                 void *quiet_ctx),
                   void *leave_ctx, void (*on_quiet)(void *ctx), void *ctx);
/* `on_closed` comes also when there is none, but then from inside. */
void servers_close(struct servers *s, void (*on_closed)(void *ctx), void *ctx);

#endif
