/* fixture.h - a client, and the server whose answers are a script. */
#pragma once

#include "sandpool/client.h"
#include "tests/lib/unit.h"
#include "tests/unit/client/script_server.h"

#define OK_HEAD "HTTP/1.1 200 OK\r\n"

struct fixture {
    struct script_server *server;
    struct sp_client *client;
};

static inline struct fixture start(const struct step *steps, size_t count)
{
    struct fixture f;

    f.server = script_server_start(steps, count);
    f.client = sp_client_new(script_server_path(f.server));
    sp_client_set_timeout(f.client, 4000);
    return f;
}
