/* ports.c - servers inside the box: those that its API lists, and the way to one by the image's own proxy, /proxy/{port}/. */
#include <string.h>

#include "base/str.h"
#include "box/aio/aio.h"
#include "box/aio/call.h"

#define CALL_NS (30 * NS_PER_S)

static void on_about(struct aio_call *c, const struct aio_answer *a)
{
    (void) a;
    aio_fail(c, SP_BACKEND_FAILED, "the sandbox does not say which ports are used");
}

/* This answer has its members beside `data`. */
static bool on_whole(struct aio_call *c, const struct json *root)
{
    const struct json *ports =
        json_get(json_get(json_get(root, "detail"), "system"), "occupied_ports");
    struct json_walk walk = {0};
    const struct json *one;
    struct json_out o;
    uint64_t port;

    if (ports == NULL || !json_is_arr(ports))
        return false;
    aio_say_begin(&o);
    json_begin_arr(&o, "ports");
    while ((one = json_next(ports, &walk)) != NULL) {
        if (!json_u64(one, &port) &&
            (json_str(one) == NULL || !str_parse_u64(json_str(one), 1, UINT16_MAX, &port)))
            continue;
        json_begin_obj(&o, NULL);
        json_put_u64(&o, "port", port);
        json_put_null(&o, "address");
        json_put_null(&o, "pid");
        json_put_null(&o, "command");
        json_end(&o);
    }
    json_end(&o);
    json_end(&o);
    aio_reply(c, &o);
    return true;
}

void aio_port_list(struct aio_call *c)
{
    c->on_whole = on_whole;
    aio_ask(c, "GET", "/v1/sandbox", CALL_NS, true, on_about);
}

void box_aio_pass_port(struct box_proxy *p, struct http_exchange *ex,
                       const struct box_proxy_limits *limits, const struct box_proxy_to *to)
{
    struct box_proxy_to through = *to;

    if (http_upgrade_wanted(ex) != NULL) {
        p->config.refuse(ex, 501, 0,
                         "This sandbox has no agent of sandpool: its ports serve HTTP "
                         "only, no WebSockets and no raw connections");
        return;
    }
    through.is_by_path = true;
    if (str_is_empty(through.rest) || through.rest[0] == '?')
        p->config.refuse(ex, 501, 0,
                         "This sandbox has no agent of sandpool: a request to one of its "
                         "ports needs a path, at least a slash");
    else
        box_proxy_pass(p, ex, limits, &through);
}
