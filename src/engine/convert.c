/* convert.c - a box in the words of the pool, of a backend and of its callers. Each has sizes of its own;
 * here all are visible, and what must agree is checked when this is compiled. */
#include "base/str.h"
#include "box/address.h"
#include "box/probe.h"
#include "engine/internal.h"

/* Copied in both directions, so neither may cut. */
static_assert(POOL_OWNER_MAX == BACKEND_LABEL_MAX, "user and thread in labels");
static_assert(POOL_URL_MAX == BACKEND_URL_MAX, "addresses");
static_assert(POOL_TOKEN_MAX == BACKEND_TOKEN_MAX, "tokens");
static_assert(POOL_REF_MAX == BACKEND_REF_MAX, "names that backends give");
static_assert(POOL_LIFE_MAX == BACKEND_LIFE_MAX, "lives");
/* A label has more room: seen_from_backend() refuses what does not fit. */
static_assert(POOL_ID_MAX <= BACKEND_LABEL_MAX, "ids in labels");
static_assert(POOL_NAME_MAX <= BACKEND_LABEL_MAX, "profiles in labels");
static_assert(CONFIG_NAME_MAX <= BACKEND_LABEL_MAX, "instances in labels");
/* From the configuration. */
static_assert(CONFIG_NAME_MAX == POOL_NAME_MAX, "names of profiles");
static_assert(CONFIG_PROFILES_MAX <= POOL_PROFILES_MAX, "profiles");
static_assert(ENGINE_BACKENDS_MAX <= POOL_BACKENDS_MAX, "backends");
/* To a box and its callers. */
static_assert(BOX_ID_MAX == POOL_ID_MAX, "ids");
static_assert(BOX_URL_MAX >= POOL_URL_MAX, "addresses");
static_assert(BOX_TOKEN_MAX >= POOL_TOKEN_MAX, "tokens");
static_assert(sizeof(((struct probe *) NULL)->url) > POOL_URL_MAX, "addresses");
static_assert(sizeof(((struct probe *) NULL)->token) > POOL_TOKEN_MAX, "tokens");

void box_to_backend(struct engine *e, const struct pool_box *box, struct backend_box *ret)
{
    *ret = (struct backend_box){.labels = {.box_id = box->id.v,
                                           .spec_hash = box->spec_hash,
                                           .generation = box->generation,
                                           .principal = box->principal}};
    str_copy_cut(ret->labels.instance, sizeof(ret->labels.instance), e->instance);
    str_copy_cut(ret->labels.profile, sizeof(ret->labels.profile), profiles_name(e, box->profile));
    str_copy_cut(ret->labels.sandbox_id, sizeof(ret->labels.sandbox_id), box->sandbox_id);
    str_copy_cut(ret->labels.user, sizeof(ret->labels.user), box->user);
    str_copy_cut(ret->labels.thread, sizeof(ret->labels.thread), box->thread);
    str_copy_cut(ret->url, sizeof(ret->url), box->url);
    str_copy_cut(ret->ref, sizeof(ret->ref), box->ref);
    str_copy_cut(ret->token, sizeof(ret->token), box->token);
    str_copy_cut(ret->life, sizeof(ret->life), box->life);
}

bool seen_from_backend(const struct backend_box *box, struct pool_seen *ret)
{
    *ret = (struct pool_seen){.id = {box->labels.box_id},
                              .generation = box->labels.generation,
                              .principal = box->labels.principal,
                              .spec_hash = box->labels.spec_hash,
                              .is_foreign = box->is_foreign,
                              .is_frozen = box->is_frozen,
                              .is_absent = box->is_absent};
    str_copy_cut(ret->user, sizeof(ret->user), box->labels.user);
    str_copy_cut(ret->thread, sizeof(ret->thread), box->labels.thread);
    str_copy_cut(ret->url, sizeof(ret->url), box->url);
    str_copy_cut(ret->token, sizeof(ret->token), box->token);
    str_copy_cut(ret->ref, sizeof(ret->ref), box->ref);
    str_copy_cut(ret->life, sizeof(ret->life), box->life);
    if (str_copy(ret->sandbox_id, sizeof(ret->sandbox_id), box->labels.sandbox_id) &&
        str_copy(ret->profile, sizeof(ret->profile), box->labels.profile))
        return true;
    if (!box->is_foreign) /* those of others may be called what they like */
        log_error("box.bad_labels", LF_HEX("box", box->labels.box_id), LF_STR("ref", box->ref),
                  LF_STR("reason", "its labels name an id or a profile that is too long"));
    return false;
}

/* A box that the backend does not find is not a path that the caller got wrong, and what the daemon failed at while it asked a
 * box is nothing that it did wrong itself. */
int engine_code_for_caller(const struct engine *e, int result)
{
    result = err_for_caller(result);
    if (result == SP_CANCELLED && e->is_closing)
        return SP_DRAINING;
    if (result == SP_NOT_FOUND || result == SP_CANCELLED || result == SP_INTERNAL ||
        sp_error_info(result)->http_status == 0)
        return SP_BACKEND_FAILED;
    return result;
}
