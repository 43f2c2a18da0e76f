/* httpc_stream.h - the bytes of one transfer, both ways. Private to httpc*.c. */
#ifndef LOOP_HTTPC_STREAM_H
#define LOOP_HTTPC_STREAM_H

#include "loop/httpc.h"

/* Before a start: buffers empty, nothing known of the answer. */
void httpc_stream_reset(struct httpc_request *r);
/* The transfer is over: no callback is called, except for the data that came before, if `is_ok`. */
void httpc_stream_stop(struct httpc_request *r, bool is_ok);
/* libcurl said what it wants to hear about a socket of this transfer. */
void httpc_stream_polled(struct httpc_request *r, int fd, int what);
/* libcurl failed, but the answer was there in full: the server just did not want the whole body. */
bool httpc_stream_is_answered(const struct httpc_request *r, int curl_code);

/* libcurl's callbacks; `arg` is the request. */
size_t httpc_stream_on_body(char *data, size_t size, size_t count, void *arg);
size_t httpc_stream_on_header(char *data, size_t size, size_t count, void *arg);
size_t httpc_stream_on_read(char *data, size_t size, size_t count, void *arg);

/* A request that rested goes on. Not from inside libcurl. */
void httpc_stream_go_on(struct httpc_request *r);

/* In httpc.c: whether chunks have made enough work in this turn, of this request or of all. Then it rests:
 * httpc_stream_go_on() is called in a later turn, in the order of their coming. */
bool httpc_rests(struct httpc_request *r);
void httpc_count_effort(struct httpc_request *r, size_t cost);
void httpc_rest_end(struct httpc_request *r);
/* In httpc.c: ends the request with what a CURLcode means. Not from inside libcurl. */
void httpc_complete(struct httpc_request *r, int curl_code);

#endif
