/* pass.c - /s/{sandbox_id}/...: who may send requests to a box through this listener, and its
 * URL. */
#include <stdio.h>

#include "base/str.h"
#include "dialects/provisioner/internal.h"
#include "front/deed.h"
#include "front/pass.h"
#include "front/principal.h"
#include "front/wake.h"

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
    (void) snprintf(ret, BOX_ADDRESS_MAX, "%s://%s/s/%s/%s",
                    http_peer(ex)->is_secure ? "https" : "http", host, box->sandbox_id, capability);
}

static bool has_token(struct http_exchange *ex, const char *token)
{
    const char *given = front_bearer(ex);

    return given != NULL && !str_is_empty(token) && str_equal_secret(given, token);
}

static const struct pool_box *find(void *ctx, const char *sandbox_id)
{
    return provisioner_find(ctx, sandbox_id);
}

static bool is_known(void *ctx, struct http_exchange *ex, const struct pool_box *box)
{
    (void) ctx;
    return provisioner_has_key(ex) || has_token(ex, box->token);
}

bool provisioner_may_pass(struct http_exchange *ex)
{
    struct front_door door = {.ctx = provisioner_of(ex),
                              .engine = provisioner_of(ex)->engine,
                              .find = find,
                              .is_known = is_known};
    struct box_proxy_to to;

    return front_admit(ex, &door, &to) != NULL;
}

static void refuse_wake(struct http_exchange *ex, int code, const char *reason)
{
    (void) code;
    provisioner_refuse(ex, 503, 1000, "%s", reason);
}

void provisioner_pass(struct http_exchange *ex)
{
    struct provisioner *p = provisioner_of(ex);
    const struct config *c = engine_config(p->engine);
    struct front_door door = {.ctx = p, .engine = p->engine, .find = find, .is_known = is_known};
    struct box_proxy_limits limits = {.requests = p->max_requests,
                                      .requests_per_box = c->provisioner.max_requests_per_box,
                                      .idle_ns = c->provisioner.request_idle_s * NS_PER_S};
    char sandbox_id[POOL_ID_MAX + 1];
    struct box_proxy_to to;
    const struct pool_box *box = front_admit(ex, &door, &to);

    if (box == NULL) {
        provisioner_refuse(ex, 404, 0, "Not Found");
        return;
    }
    if (front_wake(ex, p->engine, box, provisioner_pass, refuse_wake))
        return;
    if (!provisioner_has_key(ex)) /* the guard has let that in: its connections count for nobody */
        http_prove_guest(ex, box->id.v);
    str_copy_cut(sandbox_id, sizeof(sandbox_id), box->sandbox_id);
    front_note_deed(p->engine, ex, box->id, "proxy");
    box_proxy_pass(p->proxy, ex, &limits, &to);
    provisioner_hold(p, sandbox_id);
}
