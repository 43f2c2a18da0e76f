/* choose.c - which profile an acquire gets: the one that it names, if that has what is asked for, or with `profile: auto` the
 * best of those that have. A thread that has a box keeps it while its profile will do. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "dialects/native/internal.h"

enum { REASON_MAX = 120 };

static const char *label_of(const struct config_profile *c, const char *name)
{
    for (unsigned i = 0; i < c->labels.count; i++) {
        if (strcmp(c->labels.pairs[i].key, name) == 0)
            return c->labels.pairs[i].value;
    }
    return NULL;
}

static bool has_labels(const struct config_profile *c, const struct json *labels,
                       char why[REASON_MAX])
{
    const struct json *value;
    const char *name;

    for (size_t i = 0; labels != NULL && json_member(labels, i, &name, &value); i++) {
        const char *has = label_of(c, name);

        if (has != NULL && strcmp(has, json_str(value)) == 0)
            continue;
        (void) snprintf(why, REASON_MAX, "its label '%.40s' is %s%.40s%s", name,
                        has != NULL ? "'" : "not there", has != NULL ? has : "",
                        has != NULL ? "'" : "");
        return false;
    }
    return true;
}

/* What it takes from the caller's limits is decided elsewhere: operators may exceed those of a profile that they name. */
static bool has_all(const struct config_profile *c, const struct api_need *n, char why[REASON_MAX])
{
    if (n->network != NULL && strcmp(n->network, config_network_name(c->network.mode)) != 0) {
        (void) snprintf(why, REASON_MAX, "its network is %s", config_network_name(c->network.mode));
        return false;
    }
    return has_labels(c, n->labels, why);
}

/* Also what a profile that is named would be refused for. */
static bool will_do(struct api *api, unsigned index, const struct config_profile *c,
                    const struct api_need *n, char why[REASON_MAX])
{
    unsigned kinds = backend_extras_kinds(&n->extras) & ~engine_can_apply(api->engine, index);
    struct err err;

    if (!has_all(c, n, why))
        return false;
    if (engine_check_limits(api->engine, index, &n->extras, &err) != SP_OK)
        str_copy_cut(why, REASON_MAX, "its limits are lower");
    else if (kinds != 0)
        str_copy_cut(why, REASON_MAX, "its backend cannot apply envs, mounts or limits");
    else
        return true;
    return false;
}

/* The lower the better; the first number counts first. */
struct score {
    uint64_t trouble;
    uint64_t cost;
};

static struct score score_of(struct api *api, unsigned index, const struct config_profile *c)
{
    enum { HOUR_S = 3600 };
    const struct config *config = engine_config(api->engine);
    char reason[ENGINE_TROUBLE_MAX];
    struct pool_profile_view view;
    struct config_quote quote;
    struct score s = {0};
    bool is_blank;

    pool_get_profile(engine_pool(api->engine), rt_now(engine_rt(api->engine)), index, &view);
    is_blank = view.by_state[POOL_BLANK] > 0;
    /* One that fails is tried by its own refill; without one the next caller is the trial. */
    s.trouble = engine_profile_trouble(api->engine, index, reason, sizeof(reason)) ||
                (view.is_open && !is_blank && view.profile->warm_min > 0);
    if (config->auto_.strategy == CONFIG_AUTO_CHEAPEST && config_quote(c, HOUR_S, &quote))
        s.cost = quote.total; /* without a price it costs nothing */
    else if (config->auto_.strategy == CONFIG_AUTO_FASTEST && !is_blank)
        s.cost = view.provision_ns > 0 ? view.provision_ns : UINT64_MAX; /* not known yet */
    return s;
}

static bool is_better(const struct score *a, const struct score *b)
{
    return a->trouble != b->trouble ? a->trouble < b->trouble : a->cost < b->cost;
}

/* The candidates in their order. */
static const struct config_profile *next_candidate(const struct config *c, unsigned *i,
                                                   const char **list)
{
    char name[CONFIG_TEXT_MAX + 1];

    if (str_is_empty(c->auto_.profiles))
        return *i < c->profile_count ? &c->profiles[(*i)++] : NULL;
    return config_list_next(list, name, sizeof(name)) ? config_find_profile(c, name) : NULL;
}

int api_choose(struct api *api, const struct api_need *n, unsigned *ret, struct err *err)
{
    const struct config *config = engine_config(api->engine);
    const char *list = config->auto_.profiles;
    const struct config_profile *c;
    struct buf reasons;
    struct score best = {0};
    unsigned i = 0;
    bool is_found = false;

    buf_init(&reasons, 4 * REASON_MAX);
    while ((c = next_candidate(config, &i, &list)) != NULL) {
        int index = pool_profile_index(engine_pool(api->engine), c->name);
        char why[REASON_MAX];
        struct score s;

        if (index < 0)
            continue;
        if (!will_do(api, (unsigned) index, c, n, why)) {
            buf_printf(&reasons, "%s'%s': %s", reasons.len > 0 ? "; " : "", c->name, why);
            continue;
        }
        s = score_of(api, (unsigned) index, c);
        if (is_found && !is_better(&s, &best))
            continue;
        best = s;
        *ret = (unsigned) index;
        is_found = true;
    }
    if (!is_found)
        (void) err_set(err, SP_INVALID_FIELD, "no profile has what is asked for: %.180s",
                       buf_str(&reasons));
    buf_fini(&reasons);
    return is_found ? SP_OK : SP_INVALID_FIELD;
}

/* Of the thread, if it has a box that this caller may have. */
static bool own_profile(struct api *api, const struct api_caller *caller, const char *sandbox_id,
                        const struct api_need *n, unsigned *ret)
{
    const struct pool_box *box = pool_find_sandbox(engine_pool(api->engine), sandbox_id);
    const struct config_profile *c;
    char why[REASON_MAX];

    if (box == NULL || (box->principal != caller->principal && !caller->is_operator))
        return false;
    c = engine_profile(api->engine, box->profile);
    if (c == NULL || !will_do(api, box->profile, c, n, why))
        return false;
    *ret = box->profile;
    return true;
}

int api_set_profile(struct api *api, const struct api_caller *caller, const char *name,
                    const struct api_need *n, struct pool_acquire *ret, struct err *err)
{
    const char *wanted = name != NULL ? name : "default";
    const struct config_profile *c;
    char why[REASON_MAX];
    int index;

    ret->is_profile_named = name != NULL;
    if (strcmp(wanted, CONFIG_AUTO) == 0) {
        if (!own_profile(api, caller, ret->sandbox_id, n, &ret->profile))
            return api_choose(api, n, &ret->profile, err);
        ret->is_profile_named = false; /* it may be gone by then: any that will do */
        return SP_OK;
    }
    index = pool_profile_index(engine_pool(api->engine), wanted);
    c = config_find_profile(engine_config(api->engine), wanted);
    if (index < 0 || c == NULL)
        return err_set(err, SP_INVALID_FIELD, "there is no profile '%s'", wanted);
    if (!has_all(c, n, why))
        return err_set(err, SP_INVALID_FIELD, "profile '%s' does not have what is asked for: %s",
                       wanted, why);
    ret->profile = (unsigned) index;
    return SP_OK;
}
