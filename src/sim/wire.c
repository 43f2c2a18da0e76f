/* wire.c - reads and writes the messages of sandpool-sim. Ids and hashes travel as hex, because a
 * JSON number does not hold 64 bits everywhere. */
#include "sim/wire.h"

#include <string.h>

#include "base/str.h"

static const char *const text_keys[WORLD_TEXT_COUNT] = {
    [WORLD_INSTANCE] = "instance", [WORLD_PROFILE] = "profile", [WORLD_SANDBOX_ID] = "sandbox_id",
    [WORLD_USER] = "user",         [WORLD_THREAD] = "thread",   [WORLD_TOKEN] = "token",
};

/* A day: more is a mistake of whoever asks. */
enum { MS_MAX = 86400000 };

static int get_hex(const struct json *obj, const char *key, uint64_t *ret, struct err *err)
{
    const char *hex = NULL;
    int rc = json_field_str(obj, key, 16, &hex, err);

    if (rc != SP_OK || hex == NULL)
        return rc;
    if (!str_parse_hex64(hex, ret))
        return err_set(err, SP_INVALID_FIELD, "'%s' must be sixteen hex digits", key);
    return SP_OK;
}

void wire_put_box(struct json_out *o, const struct world_spec *spec, const char *url)
{
    json_put_hex64(o, "box_id", spec->box_id);
    json_put_hex64(o, "spec_hash", spec->spec_hash);
    json_put_u64(o, "generation", spec->generation);
    json_put_hex64(o, "principal", spec->principal);
    for (int i = 0; i < WORLD_TEXT_COUNT; i++)
        json_put_str(o, text_keys[i], spec->text[i] != NULL ? spec->text[i] : "");
    if (url != NULL)
        json_put_str(o, "url", url);
}

void wire_put_manners(struct json_out *o, const struct world_manners *m)
{
    json_put_u64(o, "create_ms", m->create_ms);
    json_put_u64(o, "create_jitter_ms", m->create_jitter_ms);
    json_put_u64(o, "ready_ms", m->ready_ms);
    json_put_u64(o, "fail_percent", m->fail_percent);
    json_put_u64(o, "hang_percent", m->hang_percent);
    json_put_hex64(o, "seed", m->seed);
}

int wire_get_box(const struct json *obj, struct wire_box *ret, struct err *err)
{
    int rc;

    memset(ret, 0, sizeof(*ret));
    if (!json_is_obj(obj))
        return err_set(err, SP_INVALID_FIELD, "a box must be an object");
    rc = get_hex(obj, "box_id", &ret->spec.box_id, err);
    if (rc == SP_OK)
        rc = get_hex(obj, "spec_hash", &ret->spec.spec_hash, err);
    if (rc == SP_OK)
        rc = json_field_u64(obj, "generation", 0, INT64_MAX, &ret->spec.generation, err);
    if (rc == SP_OK)
        rc = get_hex(obj, "principal", &ret->spec.principal, err);
    for (int i = 0; i < WORLD_TEXT_COUNT && rc == SP_OK; i++) {
        ret->spec.text[i] = "";
        rc = json_field_str(obj, text_keys[i], WORLD_TEXT_MAX, &ret->spec.text[i], err);
    }
    ret->url = "";
    if (rc == SP_OK)
        rc = json_field_str(obj, "url", WIRE_URL_MAX, &ret->url, err);
    return rc;
}

int wire_get_manners(const struct json *obj, struct world_manners *ret, struct err *err)
{
    const struct {
        const char *key;
        uint64_t max;
        uint64_t *to;
    } fields[] = {
        {"create_ms", MS_MAX, &ret->create_ms},
        {"create_jitter_ms", MS_MAX, &ret->create_jitter_ms},
        {"ready_ms", MS_MAX, &ret->ready_ms},
        {"fail_percent", 100, &ret->fail_percent},
        {"hang_percent", 100, &ret->hang_percent},
    };

    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        int rc = json_field_u64(obj, fields[i].key, 0, fields[i].max, fields[i].to, err);

        if (rc != SP_OK)
            return rc;
    }
    return get_hex(obj, "seed", &ret->seed, err);
}
