/* log_line.c - turns one event into one line of logfmt or JSON, with secrets left out. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/str.h"

static const char *const level_names[LOG_LEVEL_COUNT] = {"debug", "info", "warn", "error"};

static const char *const secret_words[] = {"token", "secret", "password", "authorization",
                                           "cookie"};

/* A name with one of the words in it, or one that ends in "key". */
static bool is_secret(const char *key)
{
    size_t len = strlen(key);

    if (len >= 3 && strcasecmp(key + len - 3, "key") == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(secret_words); i++)
        if (strcasestr(key, secret_words[i]) != NULL)
            return true;
    return false;
}

/* Bytes that are no UTF-8 are replaced: one of them would make the whole line unreadable. */
static void put_quoted(struct buf *out, const char *s)
{
    size_t len;

    buf_putc(out, '"');
    for (; *s != '\0'; s += len > 0 ? len : 1) {
        unsigned char c = (unsigned char) *s;

        len = str_utf8_len(s);
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_puts(out, "\\n");
        else if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else if (len == 0)
            buf_puts(out, "\\ufffd");
        else
            buf_append(out, s, len);
    }
    buf_putc(out, '"');
}

static bool needs_quotes(const char *s)
{
    if (*s == '\0')
        return true;
    for (; *s != '\0'; s++)
        if (*s <= ' ' || *s == '"' || *s == '=' || *s == '\\' || *s == 0x7f || (*s & 0x80) != 0)
            return true;
    return false;
}

static void put_str(struct buf *out, enum log_format format, const char *s)
{
    if (format == LOG_JSON || needs_quotes(s))
        put_quoted(out, s);
    else
        buf_puts(out, s);
}

static void put_value(struct buf *out, enum log_format format, const struct log_field *f)
{
    char hex[17];

    if (is_secret(f->key)) {
        put_str(out, format, "[redacted]");
        return;
    }
    switch (f->type) {
    case LOG_FIELD_STR:
        put_str(out, format, f->str != NULL ? f->str : "");
        break;
    case LOG_FIELD_U64:
        buf_printf(out, "%llu", (unsigned long long) f->num);
        break;
    case LOG_FIELD_I64:
        buf_printf(out, "%lld", (long long) (int64_t) f->num);
        break;
    case LOG_FIELD_HEX64:
        str_hex64(hex, f->num);
        put_str(out, format, hex);
        break;
    case LOG_FIELD_END:
        break;
    }
}

void log_format_line(struct buf *out, enum log_format format, uint64_t wall_ms,
                     enum log_level level, const char *event, const struct log_field *fields)
{
    char ts[32];

    str_iso8601(ts, wall_ms);
    if (format == LOG_JSON)
        buf_printf(out, "{\"ts\":\"%s\",\"level\":\"%s\",\"event\":\"%s\"", ts, level_names[level],
                   event);
    else
        buf_printf(out, "ts=%s level=%s event=%s", ts, level_names[level], event);
    for (const struct log_field *f = fields; f->type != LOG_FIELD_END; f++) {
        if (format == LOG_JSON)
            buf_printf(out, ",\"%s\":", f->key);
        else
            buf_printf(out, " %s=", f->key);
        put_value(out, format, f);
    }
    if (format == LOG_JSON)
        buf_putc(out, '}');
}
