/* image_config.h - what programs in an image are started with, and nothing else that its config says. */
#ifndef HELPER_IMAGE_CONFIG_H
#define HELPER_IMAGE_CONFIG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/* Whether an engine can start a program by it, and would start it inside: SP_PROTOCOL says what is wrong. */
MUST_CHECK int image_config_check(const struct json *config, struct err *err);

/* Of the member `config` of an image's config, as JSON: variables, program, user, directory. Not its labels, volumes,
 * health checks and triggers. `labels`: a JSON object that is its labels then; NULL: none. */
void image_config_print(const struct json *config, const char *labels, struct buf *out);

#endif
