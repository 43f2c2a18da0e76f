/* quote.c - what a lease would cost. Amounts are whole millionths of the currency, and the same as a decimal
 * number in a text, since numbers in JSON are not exact everywhere. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "dialects/native/internal.h"

enum { DURATION_DEFAULT_S = 3600, DURATION_MAX_S = 366 * 24 * 3600 };

/* "amount" and "amount_micros". */
void api_put_amount(struct json_out *o, const char *name, uint64_t micros)
{
    char text[CONFIG_MICROS_MAX];
    char key[32];

    config_print_micros(micros, text);
    json_put_str(o, name, text);
    (void) snprintf(key, sizeof(key), "%s_micros", name);
    json_put_u64(o, key, micros);
}

void api_put_price(struct json_out *o, const struct config_profile *c)
{
    char text[CONFIG_MICROS_MAX];

    if (str_is_empty(c->price.currency)) {
        json_put_null(o, "price");
        return;
    }
    json_begin_obj(o, "price");
    json_put_str(o, "currency", c->price.currency);
    for (unsigned i = 0; i < CONFIG_RATE_COUNT; i++) {
        config_print_micros(c->price.rates[i], text);
        json_put_str(o, config_rate_name((enum config_rate) i), text);
    }
    json_end(o);
}

/* What costs nothing is left out; what is paid by use has a rate and no amount, and is not in the total. */
static void put_parts(struct json_out *o, const struct config_profile *c,
                      const struct config_quote *q)
{
    json_begin_arr(o, "parts");
    for (unsigned i = 0; i < CONFIG_RATE_COUNT; i++) {
        if (c->price.rates[i] == 0)
            continue;
        json_begin_obj(o, NULL);
        json_put_str(o, "name", config_rate_name((enum config_rate) i));
        api_put_amount(o, "rate", c->price.rates[i]);
        if (i < CONFIG_RATE_USED) {
            api_put_amount(o, "amount", q->parts[i]);
        } else {
            json_put_null(o, "amount");
            json_put_null(o, "amount_micros");
        }
        json_end(o);
    }
    json_end(o);
}

static void reply(struct http_exchange *ex, const struct config_profile *c, uint64_t duration_s)
{
    struct config_quote quote;
    bool has_price = config_quote(c, duration_s, &quote);
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "profile", c->name);
    json_put_u64(&o, "duration_s", duration_s);
    json_put_str(&o, "currency", has_price ? c->price.currency : NULL);
    if (has_price) {
        put_parts(&o, c, &quote);
        api_put_amount(&o, "total", quote.total);
    } else {
        json_put_null(&o, "parts");
        json_put_null(&o, "total");
        json_put_null(&o, "total_micros");
    }
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

/* NULL: the error has been answered. */
static const struct config_profile *find_profile(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    const struct config_profile *c;
    char name[POOL_NAME_MAX + 1];
    struct api_need any = {0};
    unsigned index;
    struct err err;

    if (!http_query(ex, "profile", name, sizeof(name)))
        str_copy_cut(name, sizeof(name), "default");
    if (strcmp(name, CONFIG_AUTO) == 0) {
        if (api_choose(api, &any, &index, &err) == SP_OK)
            return engine_profile(api->engine, index);
        http_reply_err(ex, &err);
        return NULL;
    }
    c = config_find_profile(engine_config(api->engine), name);
    if (c == NULL)
        http_reply_error(ex, SP_INVALID_FIELD, "'profile': there is no such profile", 0);
    return c;
}

void api_quote(struct http_exchange *ex)
{
    const struct config_profile *c = find_profile(ex);
    char text[24];
    uint64_t duration_s = DURATION_DEFAULT_S;

    if (c == NULL)
        return;
    if (http_query(ex, "duration_s", text, sizeof(text)) &&
        !str_parse_u64(text, 0, DURATION_MAX_S, &duration_s))
        http_reply_error(ex, SP_INVALID_FIELD, "'duration_s' must be 0 to 31622400", 0);
    else
        reply(ex, c, duration_s);
}
