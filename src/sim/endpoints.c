/* endpoints.c - what the boxes themselves serve: one listener stands for all of them, the path
 * names the box. Health is open, everything else wants the box's token. */
#include <string.h>

#include "base/str.h"
#include "sandpool/version.h"
#include "sim/machine.h"

static void handle_sandbox(struct http_exchange *ex)
{
    struct machine *m = http_server_ctx(ex);
    const struct world_box *box = machine_find_box(ex);
    struct json_out o;

    if (box == NULL)
        return;
    rt_refresh(&m->loop.rt); /* the loop may have slept until this request came */
    if (rt_now(&m->loop.rt) < box->ready_ns) {
        http_reply_error(ex, SP_STARTING, "the box is not ready yet", 0);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "success", true);
    json_put_str(&o, "message", "");
    json_put_null(&o, "data");
    json_put_str(&o, "home_dir", "/home/user");
    json_put_str(&o, "version", "sim");
    json_begin_obj(&o, "detail");
    json_begin_obj(&o, "system");
    json_put_str(&o, "os", "simulated");
    json_put_str(&o, "release", SANDPOOL_VERSION);
    json_end(&o);
    json_end(&o);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static bool has_token(const struct http_exchange *ex, const char *token)
{
    static const char scheme[] = "Bearer ";
    const char *given = http_header(ex, "authorization");

    return given != NULL && token[0] != '\0' && strncmp(given, scheme, strlen(scheme)) == 0 &&
           str_equal_secret(given + strlen(scheme), token);
}

static void handle_whoami(struct http_exchange *ex)
{
    const struct world_box *box = machine_find_box(ex);
    struct world_spec spec;
    struct json_out o;

    if (box == NULL)
        return;
    world_box_spec(box, &spec);
    if (!has_token(ex, spec.text[WORLD_TOKEN])) {
        http_reply_error(ex, SP_UNAUTHORIZED, "the token of this box is required", 0);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    spec.text[WORLD_TOKEN] = NULL; /* the caller has it already */
    wire_put_box(&o, &spec, NULL);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

/* As the agent of a real box answers it; there is nothing here to open. */
static void handle_access(struct http_exchange *ex)
{
    static const char body[] = "{\"open\":true}";
    const struct world_box *box = machine_find_box(ex);
    struct world_spec spec;

    if (box == NULL)
        return;
    world_box_spec(box, &spec);
    if (has_token(ex, spec.text[WORLD_TOKEN]))
        http_reply(ex, 200, "application/json", body, sizeof(body) - 1);
    else
        http_reply_error(ex, SP_UNAUTHORIZED, "the token of this box is required", 0);
}

const struct http_route endpoint_routes[] = {
    {HTTP_METHOD_GET, "/b/{id}/v1/sandbox", handle_sandbox, HTTP_OPEN, 0, "health of a box"},
    {HTTP_METHOD_POST, "/b/{id}/v1/agent/access", handle_access, 0, 0, "open it, with its token"},
    {HTTP_METHOD_GET, "/b/{id}/whoami", handle_whoami, 0, 0, "labels of a box, with its token"},
    {.pattern = NULL},
};
