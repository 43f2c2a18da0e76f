/* wire.h - the JSON spoken between sandpool-sim and its clients: one place for both sides.
 *
 *   box      {"box_id":"<16 hex>","instance":"","profile":"","sandbox_id":"","user":"","thread":"",
 *             "token":"","spec_hash":"<16 hex>","generation":1,"principal":"<16 hex>","url":"http://..."}
 *   manners  {"create_ms":0,"create_jitter_ms":0,"ready_ms":0,"fail_percent":0,"hang_percent":0,
 *             "seed":"<16 hex>"}, beside the fields of a box that is asked for, as are "extras":{...}
 *            and "error":"<a code it fails with, or absent>"
 *   update   {"update_ms":0,"error":"<a code, or absent>","extras":{...}}; the machine shows what was
 *            done to a box as "updates":[<extras>...], the last ones */
#ifndef SIM_WIRE_H
#define SIM_WIRE_H

#include "base/json.h"
#include "sim/world.h"

enum { WIRE_PAGE = 1000, WIRE_PAGE_MAX = 8 * 1024 * 1024, WIRE_URL_MAX = 192 };
enum { WIRE_UPDATE_MAX = 320 * 1024, WIRE_UPDATE_MS_MAX = 600000 };

struct wire_box {
    struct world_spec spec; /* texts are never NULL */
    const char *url;
};

/* Into the object that is open. `url` may be NULL: left out. */
void wire_put_box(struct json_out *o, const struct world_spec *spec, const char *url);
void wire_put_manners(struct json_out *o, const struct world_manners *m);

/* What is absent is "" or 0. The texts live as long as the document. SP_INVALID_FIELD. */
MUST_CHECK int wire_get_box(const struct json *obj, struct wire_box *ret, struct err *err);
MUST_CHECK int wire_get_manners(const struct json *obj, struct world_manners *ret, struct err *err);

#endif
