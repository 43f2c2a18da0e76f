/* byte_range.h - the Range header of a request. */
#ifndef AGENT_FILE_BYTE_RANGE_H
#define AGENT_FILE_BYTE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct byte_range {
    uint64_t start;
    uint64_t end; /* after the last byte */
    bool is_partial;
};

/* "bytes=0-99", "bytes=100-", "bytes=-5". Anything else (several ranges, other units) means the whole
 * of `size`. False when the range is past the end. */
MUST_CHECK bool byte_range_parse(struct byte_range *ret, const char *header, uint64_t size);

#endif
