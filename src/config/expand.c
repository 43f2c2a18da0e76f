/* expand.c - environment variables in values. Only ${NAME}, ${NAME:-default} and $$ have a meaning;
 * any other dollar is an error, so that nobody expects "$HOME" to be replaced. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "config/schema.h"

static bool is_variable(const char *s, size_t len, char *name, size_t cap)
{
    return str_copy_n(name, cap, s, len) && str_is_name(name, cap - 1, "_") &&
           !(name[0] >= '0' && name[0] <= '9');
}

/* `s` is after "${"; returns what follows the "}", or NULL with the reason. */
static const char *expand_one(const char *s, struct buf *out, char why[CONFIG_WHY_MAX])
{
    const char *end = strchr(s, '}');
    const char *fallback = NULL;
    const char *value;
    char name[CONFIG_NAME_MAX + 1];
    size_t len;

    if (end == NULL) {
        (void) snprintf(why, CONFIG_WHY_MAX, "has a '${' without its '}'");
        return NULL;
    }
    len = strcspn(s, ":}");
    if (s[len] == ':')
        fallback = s + len + 2;
    if ((s[len] == ':' && s[len + 1] != '-') || !is_variable(s, len, name, sizeof(name))) {
        (void) snprintf(why, CONFIG_WHY_MAX,
                        "has a variable that is neither ${NAME} nor ${NAME:-default}");
        return NULL;
    }
    value = getenv(name);
    if (fallback != NULL && (value == NULL || str_is_empty(value))) {
        buf_append(out, fallback, (size_t) (end - fallback));
    } else if (value != NULL) {
        buf_puts(out, value);
    } else {
        (void) snprintf(why, CONFIG_WHY_MAX, "needs the environment variable %s, which is not set",
                        name);
        return NULL;
    }
    return end + 1;
}

/* Variables can contain any bytes, but the result is used in JSON. */
static bool is_utf8(const unsigned char *s)
{
    while (*s != '\0') {
        uint32_t c = *s;
        unsigned more = c < 0x80 ? 0 : c >> 5 == 6 ? 1 : c >> 4 == 14 ? 2 : c >> 3 == 30 ? 3 : 4;
        static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};

        if (more == 4)
            return false;
        if (more > 0)
            c &= 0x3fU >> more;
        for (unsigned i = 1; i <= more; i++) {
            if (s[i] >> 6 != 2)
                return false;
            c = c << 6 | (s[i] & 0x3fU);
        }
        if (c < smallest[more] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
            return false;
        s += more + 1;
    }
    return true;
}

bool config_expand(const char *text, struct buf *out, char why[CONFIG_WHY_MAX])
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "$");

        buf_append(out, text, plain);
        text += plain;
        if (*text == '\0')
            break;
        if (text[1] == '$') {
            buf_putc(out, '$');
            text += 2;
        } else if (text[1] == '{') {
            text = expand_one(text + 2, out, why);
            if (text == NULL)
                return false;
        } else {
            (void) snprintf(why, CONFIG_WHY_MAX,
                            "has a lone '$': write $$ for a dollar, ${NAME} for a variable");
            return false;
        }
    }
    if (buf_failed(out)) {
        (void) snprintf(why, CONFIG_WHY_MAX, "is too long after its variables were put in");
        return false;
    }
    if (!is_utf8((const unsigned char *) buf_str(out))) {
        (void) snprintf(why, CONFIG_WHY_MAX, "is not valid UTF-8");
        return false;
    }
    return true;
}
