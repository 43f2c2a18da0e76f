/* disk_digest.h - one digest for the content of a disk. */
#ifndef HELPER_DISK_DIGEST_H
#define HELPER_DISK_DIGEST_H

#include "base/err.h"

enum { DISK_DIGEST_MAX = 72 }; /* "sha256:", 64 digits and NUL */

/* The same for the same content, wherever the file has holes. */
MUST_CHECK int disk_digest(int fd, char ret[DISK_DIGEST_MAX], struct err *err);
/* A SHA-256 as "sha256:…". */
void digest_text(const unsigned char digest[32], char ret[DISK_DIGEST_MAX]);

#endif
