/* byte_range.c - one range of bytes. A header that is not understood is ignored, as the protocol
 * requires. */
#include "agent/file/byte_range.h"

#include <string.h>

#include "base/str.h"

bool byte_range_parse(struct byte_range *ret, const char *header, uint64_t size)
{
    static const char unit[] = "bytes=";
    char first[24];
    const char *dash;
    const char *last;
    uint64_t start = 0;
    uint64_t end = 0;

    *ret = (struct byte_range){.start = 0, .end = size};
    if (strncmp(header, unit, strlen(unit)) != 0)
        return true;
    header += strlen(unit);
    dash = strchr(header, '-');
    if (dash == NULL || !str_copy_n(first, sizeof(first), header, (size_t) (dash - header)))
        return true;
    last = dash + 1;
    if ((first[0] != '\0' && !str_parse_u64(first, 0, INT64_MAX, &start)) ||
        (last[0] != '\0' && !str_parse_u64(last, 0, INT64_MAX, &end)) ||
        (first[0] == '\0' && last[0] == '\0'))
        return true;
    if (first[0] == '\0') { /* the last bytes */
        if (end == 0 || size == 0)
            return false;
        ret->start = size - MIN_OF(end, size);
    } else {
        if (last[0] != '\0' && end < start)
            return true;
        if (start >= size)
            return false;
        ret->start = start;
        if (last[0] != '\0')
            ret->end = MIN_OF(end + 1, size);
    }
    ret->is_partial = true;
    return true;
}
