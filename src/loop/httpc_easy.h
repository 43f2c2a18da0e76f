/* httpc_easy.h - one transfer as libcurl sees it: what the client sets on an easy handle, and what
 * it makes of the end. Private to httpc.c. */
#ifndef LOOP_HTTPC_EASY_H
#define LOOP_HTTPC_EASY_H

#include "loop/httpc.h"

/* Is the request one that may be sent at all? SP_OK or SP_BAD_REQUEST. Notes whether its host is a name
 * that must be looked up. */
MUST_CHECK int httpc_easy_check(struct httpc_request *r, struct err *err);
/* Sets everything on r->easy, which is fresh or reset; false when memory is gone. */
MUST_CHECK bool httpc_easy_set(struct httpc_request *r, uint64_t connect_timeout_ms);
/* Translates a CURLcode that is not CURLE_OK; returns the code it put in err. */
int httpc_easy_error(const struct httpc_request *r, int curl_code, struct err *err);

#endif
