/* hide.c - see hide.h. */
#include "base/hide.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "sandpool/errors.h"

bool hide_is_due(int code)
{
    int status = sp_error_info(code)->http_status;

    return status == 0 || status >= 500 || code == SP_POOL_EXHAUSTED;
}

static bool is_begin(const char *text, size_t at)
{
    return text[at] == '/' && (at == 0 || strchr(" '\"(=:,", text[at - 1]) != NULL);
}

/* Where the path that begins here ends. */
static size_t end_of(const char *text, size_t len, size_t at)
{
    char quote = at > 0 && (text[at - 1] == '\'' || text[at - 1] == '"') ? text[at - 1] : '\0';

    if (quote != '\0') {
        const char *end = memchr(text + at, quote, len - at);

        return end != NULL ? (size_t) (end - text) : len;
    }
    while (at < len && !isspace((unsigned char) text[at]) && strchr("'\",;:)", text[at]) == NULL)
        at++;
    return at;
}

/* The last part of the path; `end` when there is only one, or it is none of the host. */
static size_t last_of(const char *text, size_t at, size_t end)
{
    size_t last = end;

    if (end - at < 4 || text[at + 1] == '/' || memcmp(text + at, "/v1/", 4) == 0)
        return end;
    while (last > at && text[last - 1] == '/') /* a directory may end in one */
        last--;
    while (last > at && text[last - 1] != '/')
        last--;
    return last > at + 1 ? last : end;
}

void hide_paths(struct buf *out, const char *text, size_t len)
{
    size_t at = 0;

    while (at < len) {
        size_t end = is_begin(text, at) ? end_of(text, len, at) : at + 1;
        size_t last = end > at + 1 ? last_of(text, at, end) : end;

        if (last < end) {
            buf_puts(out, "…/");
            at = last;
        }
        buf_append(out, text + at, end - at);
        at = end;
    }
}
