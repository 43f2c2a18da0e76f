/* network.c - what a running box may reach is changed by its owner, within what its profile allows, or by an operator. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/egress.h"
#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "front/body.h"

struct network_call {
    struct api *api;
    struct http_exchange *ex; /* NULL: the caller has gone */
    struct api_caller caller;
    struct box_id box;
};

static void on_gone(void *ctx)
{
    struct network_call *c = ctx;

    c->ex = NULL; /* the change goes on */
}

static void on_changed(void *ctx, int code, const char *reason)
{
    struct network_call *c = ctx;
    const struct pool_box *box = pool_find_box(engine_pool(c->api->engine), c->box);
    struct json_out o;

    if (c->ex == NULL) {
        free(c);
        return;
    }
    if (code != SP_OK || box == NULL) {
        http_reply_error(c->ex, code != SP_OK ? code : SP_SANDBOX_LOST,
                         code != SP_OK ? reason : "the sandbox ended meanwhile", 0);
        free(c);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    api_put_box(&o, c->api, &c->caller, box);
    json_put_words(&o, "network_allow", engine_allowed(c->api->engine, box));
    json_end(&o);
    http_reply_json(c->ex, 200, &o);
    free(c);
}

/* The texts of the list, with commas between. */
static int join(const struct json *list, struct buf *out, struct err *err)
{
    char why[EGRESS_WHY_MAX];

    for (size_t i = 0; i < json_len(list); i++) {
        const char *word = json_str(json_at(list, i));

        if (word == NULL || str_is_empty(word) || strpbrk(word, ", \t") != NULL)
            return err_set(err, SP_INVALID_FIELD, "'allow' must be a list of names and networks");
        if (i > 0)
            buf_putc(out, ',');
        buf_puts(out, word);
    }
    if (buf_failed(out))
        return err_set(err, SP_INVALID_FIELD, "'allow' is longer than %d bytes", EGRESS_TEXT_MAX);
    if (!egress_check(buf_str(out), why))
        return err_set(err, SP_INVALID_FIELD, "'allow' %s", why);
    return SP_OK;
}

static int decode(const struct json *body, struct buf *out, struct err *err)
{
    static const struct front_field fields[] = {{"allow", FRONT_LIST, .at = 0}, {.name = NULL}};
    const struct json *list = NULL;
    int r = front_decode_strict(body, fields, &list, err);

    if (r == SP_OK && list == NULL)
        return err_set(err, SP_INVALID_FIELD, "'allow' is missing");
    return r == SP_OK ? join(list, out, err) : r;
}

static void start(struct http_exchange *ex, const struct api_caller *caller,
                  const struct pool_box *box, const char *allow)
{
    struct network_call *c = xcalloc(1, sizeof(*c));

    c->api = api_of(ex);
    c->ex = ex;
    c->caller = *caller;
    c->box = box->id;
    http_set_ctx(ex, c, on_gone);
    engine_set_allowed(c->api->engine, box, allow, on_changed, c);
}

void api_network(struct http_exchange *ex)
{
    struct engine *e = api_of(ex)->engine;
    const struct pool_box *box;
    struct api_caller caller;
    struct json_doc *doc;
    struct buf allow;
    struct err err;
    int r;

    (void) api_identify(ex, &caller); /* always set: the guard has accepted the caller */
    box = api_find_leased(ex, &caller);
    if (box == NULL)
        return;
    if (engine_allowed(e, box) == NULL) {
        http_reply_error(ex, SP_UNSUPPORTED,
                         "this sandbox was made without a list of what it may reach: only boxes "
                         "of backend oci have one, whose profile has `network.allow`",
                         0);
        return;
    }
    if (api_wake(ex, box, api_network)) /* what answers it stands still, too */
        return;
    doc = api_parse_body(ex);
    if (doc == NULL)
        return;
    buf_init(&allow, EGRESS_TEXT_MAX);
    r = decode(json_root(doc), &allow, &err);
    if (r == SP_OK && !caller.is_operator)
        r = engine_check_allow(e, box, buf_str(&allow), &err);
    if (r == SP_OK)
        start(ex, &caller, box, buf_str(&allow));
    else
        http_reply_err(ex, &err);
    buf_fini(&allow);
    (void) json_doc_free(doc);
}
