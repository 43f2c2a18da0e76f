/* stream_server.h - the part of the misbehaving server that streams. It is given a request of which
 * only the header was read. The path says what happens:
 *
 *   /flow/MIB      that much of the pattern, with its length; /flow-chunked/MIB in chunks
 *   /flow-bytes/KIB   the same in chunks of one byte
 *   /flow-extensions  one chunk whose extension never ends
 *   /fields        a provisional answer first, then odd header lines, chunks, a trailer
 *   /up/count      takes the whole body, answers "<bytes> <sound|damaged>"; waits for the gate first
 *   /up/hangup     takes a little of the body, leaves
 *   /up/early/N    answers N without taking the body, then waits for the peer to leave
 *   /up/early-chunked/N   the same in chunks
 *   /up/early-close/N     the same, says that it closes, and does so */
#ifndef TESTS_STREAM_SERVER_H
#define TESTS_STREAM_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/loop/bad_server.h"

enum { PATTERN_PIECE = 65536 };

/* What a stream carries from `pos` on: PATTERN_PIECE bytes of it. */
const char *stream_pattern(uint64_t pos);

bool stream_server_knows(const char *path);
/* `head` is the header, `rest` what came behind it. True when the connection goes on. */
bool stream_server_serve(int fd, struct bad_server_counts *counts, const char *path,
                         const char *head, const char *rest, size_t rest_len);

#endif
