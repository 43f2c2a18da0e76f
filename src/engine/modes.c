/* modes.c - the modes of the pool and of its profiles, as they are stored: a word where there is no more to say, else
 * an object with the texts for callers and with the profiles that have a mode of their own. */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

enum { MODES_MAX = 64 * 1024 };

static void put_mode(struct json_out *o, enum pool_mode mode, const char *text)
{
    json_put_str(o, "mode", pool_mode_name(mode));
    if (!str_is_empty(text))
        json_put_str(o, "message", text);
}

static bool put_profiles(struct engine *e, unsigned count, struct json_out *o)
{
    bool has_one = false;

    json_begin_obj(o, "profiles");
    for (unsigned i = 0; i < count; i++) {
        const struct pool_profile *profile = pool_profile(e->pool, i);
        const char *text;
        enum pool_mode mode = pool_profile_mode(e->pool, i, &text);

        if (mode == POOL_RUNNING || profile->is_retired)
            continue;
        has_one = true;
        json_begin_obj(o, profile->name);
        put_mode(o, mode, text);
        json_end(o);
    }
    json_end(o);
    return has_one;
}

char *modes_text(struct engine *e, enum pool_mode mode, const char *message)
{
    struct pool_stats stats;
    struct json_out o;
    struct buf text;
    bool is_plain;
    char *stored;

    pool_get_stats(e->pool, &stats);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    put_mode(&o, mode, message);
    is_plain = !put_profiles(e, stats.profile_count, &o) && str_is_empty(message);
    json_end(&o);
    buf_init(&text, MODES_MAX);
    json_out_finish(&o, &text);
    stored = xstrdup(is_plain ? pool_mode_name(mode) : buf_str(&text));
    buf_fini(&text);
    return stored;
}

static enum pool_mode mode_named(const char *name)
{
    for (int i = 0; name != NULL && i < POOL_MODE_COUNT; i++)
        if (strcmp(pool_mode_name((enum pool_mode) i), name) == 0)
            return (enum pool_mode) i;
    return POOL_RUNNING;
}

static enum pool_mode read_mode(const struct json *object, const char **ret_text)
{
    const char *text = json_str(json_get(object, "message"));

    *ret_text = text != NULL ? text : "";
    return mode_named(json_str(json_get(object, "mode")));
}

void modes_restore(struct engine *e, const char *stored)
{
    struct json_doc *doc =
        stored[0] == '{' ? json_parse(stored, strlen(stored), MODES_MAX, NULL) : NULL;
    const struct json *profiles;
    const struct json *v;
    enum pool_mode mode;
    const char *name;
    const char *text;

    if (doc == NULL) {
        pool_restore_mode(e->pool, mode_named(stored), "");
        return;
    }
    mode = read_mode(json_root(doc), &text);
    pool_restore_mode(e->pool, mode, text);
    profiles = json_get(json_root(doc), "profiles");
    for (size_t i = 0; json_member(profiles, i, &name, &v); i++) {
        int index = pool_profile_index(e->pool, name);

        mode = read_mode(v, &text);
        if (index >= 0) /* else it is gone from the configuration */
            pool_restore_profile_mode(e->pool, (unsigned) index, mode, text);
    }
    (void) json_doc_free(doc);
}
