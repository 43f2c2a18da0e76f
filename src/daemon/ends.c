/* ends.c - see ends.h. Requests to boxes that a take-over leaves with the daemon before us need no engine, so it would not
 * learn that a lease has ended; the socket of the take-over stays open for that. When it breaks, the other one ends them
 * all: what nobody watches over must not go on. */
#include "daemon/ends.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/internal.h"
#include "daemon/upgrade_packet.h"
#include "daemon/upgrade_peer.h"

static const char lost_rights[] = "the configuration was changed";

static void on_end(void *ctx, struct box_id box, int code, const char *why)
{
    struct daemon *d = ctx;

    rest_cut_box(&d->rest, box.v, code, why);
    takeover_report_lease(&d->takeover, box.v, code, why);
}

void ends_watch(struct daemon *d)
{
    d->ends = (struct engine_watcher){.ctx = d, .on_end = on_end};
    engine_watch_ends(d->engine, &d->ends);
}

void ends_caller(void *ctx, uint64_t principal)
{
    struct daemon *d = ctx;

    rest_cut_caller(&d->rest, principal, SP_FORBIDDEN, lost_rights);
    takeover_report_caller(&d->takeover, principal);
}

static bool take_lease(struct daemon *d, const struct json *root)
{
    const char *hex = NULL;
    const char *code = NULL;
    const char *why = NULL;
    struct err err;
    uint64_t box;

    if (json_field_str(root, "box", 16, &hex, &err) != SP_OK ||
        json_field_str(root, "code", 64, &code, &err) != SP_OK ||
        json_field_str(root, "why", 256, &why, &err) != SP_OK || hex == NULL || code == NULL ||
        why == NULL || !str_parse_hex64(hex, &box))
        return false;
    rest_cut_box(&d->rest, box, sp_error_from_name(code), why);
    return true;
}

static bool take_caller(struct daemon *d, const struct json *root)
{
    const char *hex = NULL;
    struct err err;
    uint64_t principal;

    if (json_field_str(root, "principal", 16, &hex, &err) != SP_OK || hex == NULL ||
        !str_parse_hex64(hex, &principal))
        return false;
    rest_cut_caller(&d->rest, principal, SP_FORBIDDEN, lost_rights);
    return true;
}

static bool take(struct daemon *d, const struct packet *b)
{
    struct err err;
    struct json_doc *doc = json_parse(b->data, b->len, PACKET_DATA_MAX, &err);
    bool is_good = false;

    if (doc == NULL)
        return false;
    if (b->kind == PACKET_LEASE)
        is_good = take_lease(d, json_root(doc));
    else if (b->kind == PACKET_CALLER)
        is_good = take_caller(d, json_root(doc));
    (void) json_doc_free(doc);
    return is_good;
}

static void on_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct upgrade *h = container_of(poll, struct upgrade_peer, poll)->upgrade;
    struct packet *b = xcalloc(1, sizeof(*b));
    struct err err;
    int r = packet_receive(h->heir->fd, b, &err);

    if (r == SP_OK && !take(h->daemon, b))
        r = err_set(&err, SP_PROTOCOL, "a packet that is not expected now");
    packet_drop_fds(b);
    free(b);
    if (r == SP_OK || r == SP_TIMEOUT)
        return;
    log_info("upgrade.rest_cut", LF_STR("reason", err.msg),
             LF_U64("connections", rest_count(&h->daemon->rest)));
    ends_unfollow(h);
    rest_cut(&h->daemon->rest);
}

void ends_follow(struct upgrade *h)
{
    int r;

    if (h->peer == NULL)
        return;
    h->heir = TAKE_PTR(h->peer);
    r = uv_poll_start(&h->heir->poll, UV_READABLE, on_readable);
    assert(r == 0); /* it is watched already */
}

void ends_unfollow(struct upgrade *h)
{
    upgrade_unwatch(&h->heir);
}
