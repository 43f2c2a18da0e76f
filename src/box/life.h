/* life.h - which start of a box has answered: sandpool-agent says so in a header of GET /v1/sandbox, and of
 * other servers the start time of process 1 is read through their file API. A box that was started again,
 * or another one in its place, has another life. */
#ifndef BOX_LIFE_H
#define BOX_LIFE_H

#include "backend/backend.h"

/* From the answer to GET /v1/sandbox, which came with its headers; false when it does not say. */
MUST_CHECK bool life_of_headers(const struct httpc_request *r, char ret[BACKEND_LIFE_MAX + 1]);
/* The question to the file API, and its answer. */
#define LIFE_PATH "/v1/file/read"
#define LIFE_BODY "{\"file\": \"/proc/1/stat\"}"
MUST_CHECK bool life_of_stat(const struct httpc_request *r, char ret[BACKEND_LIFE_MAX + 1]);
/* The server that answered is none of ours. */
bool life_is_foreign(const char *life);
/* Both are known and differ. */
bool life_is_other(const char *a, const char *b);

#endif
