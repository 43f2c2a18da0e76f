/* sse.c - server-sent events from a stream of bytes that is cut anywhere. Only what our daemon
 * sends is understood: id, event, data, comments. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

enum { LINE_MAX_LEN = 256 * 1024 };

void sse_init(struct sse *s, bool (*on_event)(struct sse *s))
{
    memset(s, 0, sizeof(*s));
    s->on_event = on_event;
    buf_init(&s->line, LINE_MAX_LEN);
    buf_init(&s->data, LINE_MAX_LEN);
}

void sse_fini(struct sse *s)
{
    buf_fini(&s->line);
    buf_fini(&s->data);
}

void sse_restart(struct sse *s)
{
    buf_reset(&s->line);
    buf_reset(&s->data);
    s->event[0] = '\0';
}

/* The value after "name:", NULL when the line is another field. */
static const char *field(const char *line, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(line, name, len) != 0 || line[len] != ':')
        return NULL;
    return line + len + (line[len + 1] == ' ' ? 2 : 1);
}

static bool end_event(struct sse *s)
{
    bool want_more = true;

    if (s->data.len > 0)
        want_more = s->on_event(s);
    buf_reset(&s->data);
    s->event[0] = '\0';
    return want_more;
}

static bool take_line(struct sse *s, const char *line)
{
    const char *value;

    if (str_is_empty(line))
        return end_event(s);
    value = field(line, "id");
    if (value != NULL)
        str_copy_cut(s->id, sizeof(s->id), value);
    value = field(line, "event");
    if (value != NULL)
        str_copy_cut(s->event, sizeof(s->event), value);
    value = field(line, "data");
    if (value != NULL) {
        if (s->data.len > 0)
            buf_putc(&s->data, '\n');
        buf_puts(&s->data, value);
    }
    return true;
}

bool sse_feed(struct sse *s, const char *data, size_t len)
{
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t n = end != NULL ? (size_t) (end - data) : len;

        buf_append(&s->line, data, n);
        if (end == NULL)
            return true;
        if (s->line.len > 0 && s->line.data[s->line.len - 1] == '\r')
            s->line.data[--s->line.len] = '\0';
        if (buf_failed(&s->line) || buf_failed(&s->data) || !take_line(s, buf_str(&s->line)))
            return false;
        buf_reset(&s->line);
        data += n + 1;
        len -= n + 1;
    }
    return true;
}
