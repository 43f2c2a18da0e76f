/* pass.c - /s/{sandbox_id}/...: who may send requests to a box through this listener, and what its address is. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "box/proxy_head.h"
#include "dialects/provisioner/internal.h"

void provisioner_url(struct http_exchange *ex, const struct pool_box *box,
                     char ret[BOX_ADDRESS_MAX])
{
    const struct config *c = engine_config(provisioner_of(ex)->engine);
    char host[160];
    char capability[BOX_CAPABILITY_LEN + 1];

    if (c->provisioner.boxes == CONFIG_BOXES_OPEN) {
        (void) snprintf(ret, BOX_ADDRESS_MAX, "%s", box->url);
        return;
    }
    box_host(c->provisioner.advertise_host, http_header(ex, "Host"), c->provisioner.listen, host,
             sizeof(host));
    box_capability(box->sandbox_id, box->token, capability);
    (void) snprintf(ret, BOX_ADDRESS_MAX, "http://%s/s/%s/%s", host, box->sandbox_id, capability);
}

static bool has_token(struct http_exchange *ex, const char *token)
{
    static const char scheme[] = "Bearer ";
    const char *given = http_header(ex, "Authorization");

    return given != NULL && !str_is_empty(token) &&
           strncasecmp(given, scheme, strlen(scheme)) == 0 &&
           str_equal_secret(given + strlen(scheme), token);
}

/* The box that the request may use, and what of the target it gets; NULL for all others alike. */
static const struct pool_box *admit(struct http_exchange *ex, const char **ret_rest)
{
    static const struct pool_box nobody = {.token = ""};
    const struct provisioner *p = provisioner_of(ex);
    char capability[BOX_CAPABILITY_LEN + 1];
    struct proxy_target t;
    const struct pool_box *box;
    bool is_found;

    if (!proxy_split(http_target(ex), &t))
        return NULL;
    box = provisioner_find(p, t.id);
    is_found = box != NULL && !str_is_empty(box->url);
    if (!is_found)
        box = &nobody; /* takes as long */
    box_capability(t.id, box->token, capability);
    if (str_equal_secret(t.capability, capability) && is_found && !str_is_empty(box->token)) {
        *ret_rest = t.rest_of_capability;
        http_prove(ex);
        return box;
    }
    if ((provisioner_has_key(ex) || has_token(ex, box->token)) && is_found) {
        *ret_rest = t.rest;
        http_prove(ex);
        return box;
    }
    return NULL;
}

void provisioner_pass(struct http_exchange *ex)
{
    struct provisioner *p = provisioner_of(ex);
    const struct config *c = engine_config(p->engine);
    const char *rest = NULL;
    const struct pool_box *box = admit(ex, &rest);
    struct box_proxy_limits limits = {.requests = c->provisioner.max_requests,
                                      .requests_per_box = c->provisioner.max_requests_per_box,
                                      .idle_ns = c->provisioner.request_idle_s * NS_PER_S};
    char sandbox_id[POOL_ID_MAX + 1];
    struct box_proxy_to to;

    if (box == NULL) {
        provisioner_refuse(ex, 404, 0, "Not Found");
        return;
    }
    to =
        (struct box_proxy_to){.box = box->id.v, .url = box->url, .token = box->token, .rest = rest};
    str_copy_cut(sandbox_id, sizeof(sandbox_id), box->sandbox_id);
    box_proxy_pass(p->proxy, ex, &limits, &to);
    provisioner_hold(p, sandbox_id);
}
