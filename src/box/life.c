/* life.c - which start of a box has answered. What a box says is a stranger's: only short names of letters
 * and digits are taken. */
#include "box/life.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/str.h"

enum { START_TIME = 20 }; /* the field after the name's bracket: 22 of proc(5) */

bool life_of_headers(const struct httpc_request *r, char ret[BACKEND_LIFE_MAX + 1])
{
    static const char name[] = "X-Sandbox-Life: ";
    const char *line = buf_str(&r->response_headers);

    ret[0] = '\0';
    for (; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        size_t len;

        line += *line == '\n' ? 1 : 0;
        len = strcspn(line, "\n");
        if (strncasecmp(line, name, strlen(name)) == 0 &&
            str_copy_n(ret, BACKEND_LIFE_MAX + 1, line + strlen(name), len - strlen(name)) &&
            str_is_name(ret, BACKEND_LIFE_MAX, "-"))
            return true;
    }
    ret[0] = '\0';
    return false;
}

#define START \
    "start-" /* begins a life that was read by the file API; our agent's have other letters */

/* "1 (name) S 0 1 ...": the name may have brackets and blanks. */
static bool read_start(const char *stat, char ret[BACKEND_LIFE_MAX + 1])
{
    const char *s = strrchr(stat, ')');
    size_t len;

    for (int i = 0; s != NULL && i < START_TIME; i++) {
        s = strchr(s, ' ');
        s += s != NULL ? 1 : 0;
    }
    if (s == NULL)
        return false;
    len = strspn(s, "0123456789");
    if (len == 0 || len > 20)
        return false;
    (void) snprintf(ret, BACKEND_LIFE_MAX + 1, START "%.*s", (int) len, s);
    return true;
}

bool life_of_stat(const struct httpc_request *r, char ret[BACKEND_LIFE_MAX + 1])
{
    struct json_doc *doc;
    const char *content;
    bool is_read = false;

    ret[0] = '\0';
    if (r->op.result != SP_OK || r->status != 200)
        return false;
    doc = json_parse(buf_str(&r->response), r->response.len, r->response.len, NULL);
    if (doc == NULL)
        return false;
    content = json_str(json_get(json_get(json_root(doc), "data"), "content"));
    if (content != NULL)
        is_read = read_start(content, ret);
    (void) json_doc_free(doc);
    return is_read;
}

bool life_is_foreign(const char *life)
{
    return strncmp(life, START, strlen(START)) == 0;
}

bool life_is_other(const char *a, const char *b)
{
    return !str_is_empty(a) && !str_is_empty(b) && strcmp(a, b) != 0;
}
