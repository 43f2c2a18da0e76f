/* multipart.c - parses multipart/form-data. The network may split a boundary anywhere. So its bytes
 * are counted while they match, and passed on as data if they are not a boundary. CR occurs only at
 * the start of the delimiter, so after a mismatch a new match can start only at the byte that did
 * not fit. */
#include "agent/file/multipart.h"

#include <string.h>
#include <strings.h>

#include "base/str.h"

/* The value of a header parameter (`name=...`), with or without quotes. */
static bool find_param(const char *text, const char *name, char *dst, size_t cap)
{
    size_t name_len = strlen(name);
    const char *p = strchr(text, ';');

    while (p != NULL) {
        size_t n = 0;
        bool is_it;
        bool is_quoted;

        p += 1 + strspn(p + 1, " \t");
        is_it = strncasecmp(p, name, name_len) == 0 && p[name_len] == '=';
        p += strcspn(p, "=;");
        if (*p == '\0')
            break;
        if (*p != '=')
            continue;
        p++;
        is_quoted = *p == '"';
        if (is_quoted)
            p++;
        while (*p != '\0' && (is_quoted ? *p != '"' : *p != ';')) {
            if (is_quoted && *p == '\\' && (p[1] == '"' || p[1] == '\\'))
                p++;
            if (n + 1 < cap && is_it)
                dst[n] = *p;
            n++;
            p++;
        }
        if (is_it && n + 1 <= cap) {
            while (!is_quoted && n > 0 && dst[n - 1] == ' ')
                n--;
            dst[n] = '\0';
            return true;
        }
        p = strchr(p, ';');
    }
    dst[0] = '\0';
    return false;
}

int multipart_init(struct multipart *m, const char *content_type, struct err *err)
{
    static const char type[] = "multipart/form-data";
    char boundary[MULTIPART_BOUNDARY_MAX + 1];

    buf_init(&m->head, MULTIPART_HEADERS_MAX);
    m->state = MULTIPART_PREAMBLE;
    m->parts = 0;
    if (content_type == NULL || strncasecmp(content_type, type, strlen(type)) != 0 ||
        !find_param(content_type, "boundary", boundary, sizeof(boundary)) || boundary[0] == '\0')
        return err_set(err, SP_INVALID_FIELD, "the body must be %s with a boundary", type);
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary, strlen(boundary));
    m->delimiter_len = 4 + strlen(boundary);
    m->matched = 2; /* the first boundary needs no line end before it */
    return SP_OK;
}

void multipart_fini(struct multipart *m)
{
    buf_fini(&m->head);
}

static int start_part(struct multipart *m, struct err *err)
{
    static const char header[] = "content-disposition:";
    char name[MULTIPART_NAME_MAX] = "";
    char filename[MULTIPART_FILENAME_MAX] = "";
    const char *line = buf_str(&m->head);

    if (strlen(line) != m->head.len)
        return err_set(err, SP_BAD_REQUEST, "multipart: NUL in a part's headers");
    while (*line != '\0') {
        char text[MULTIPART_HEADERS_MAX];
        size_t len = strcspn(line, "\r\n");

        if (strncasecmp(line, header, strlen(header)) == 0 &&
            str_copy_n(text, sizeof(text), line, len)) {
            (void) find_param(text, "name", name, sizeof(name));             /* "" then */
            (void) find_param(text, "filename", filename, sizeof(filename)); /* "" then */
        }
        line += len;
        line += strspn(line, "\r\n");
    }
    buf_reset(&m->head);
    m->parts++;
    if (m->parts > MULTIPART_PARTS_MAX)
        return err_set(err, SP_BAD_REQUEST, "multipart: more than %d parts", MULTIPART_PARTS_MAX);
    m->state = MULTIPART_DATA;
    m->matched = 0;
    m->on_part(m->ctx, name, filename);
    return SP_OK;
}

/* Two bytes after a boundary: a line end, or the dashes of the last one. Spaces may come before. */
static int feed_after(struct multipart *m, char c, struct err *err)
{
    if (m->head.len == 0 && (c == ' ' || c == '\t'))
        return SP_OK;
    buf_putc(&m->head, c);
    if (m->head.len < 2)
        return SP_OK;
    if (strcmp(buf_str(&m->head), "--") == 0)
        m->state = MULTIPART_END;
    else if (strcmp(buf_str(&m->head), "\r\n") == 0)
        m->state = MULTIPART_HEADERS;
    else
        return err_set(err, SP_BAD_REQUEST, "multipart: no line end after a boundary");
    buf_reset(&m->head);
    return SP_OK;
}

static int feed_headers(struct multipart *m, char c, struct err *err)
{
    const struct buf *h = &m->head;

    buf_putc(&m->head, c);
    if (buf_failed(h))
        return err_set(err, SP_BAD_REQUEST, "multipart: the headers of a part are over %d bytes",
                       MULTIPART_HEADERS_MAX);
    if ((h->len == 2 && memcmp(h->data, "\r\n", 2) == 0) ||
        (h->len >= 4 && memcmp(h->data + h->len - 4, "\r\n\r\n", 4) == 0))
        return start_part(m, err);
    return SP_OK;
}

static void put_data(struct multipart *m, const char *data, size_t len)
{
    if (m->state == MULTIPART_DATA && len > 0)
        m->on_data(m->ctx, data, len);
}

/* Data up to the delimiter; returns the bytes used. */
static size_t feed_data(struct multipart *m, const char *data, size_t len)
{
    size_t i = 0;

    while (i < len) {
        if (m->matched == 0) {
            const char *cr = memchr(data + i, '\r', len - i);
            size_t n = cr != NULL ? (size_t) (cr - data) - i : len - i;

            put_data(m, data + i, n);
            i += n;
            if (cr == NULL)
                return len;
        }
        if (data[i] == m->delimiter[m->matched]) {
            m->matched++;
            i++;
            if (m->matched == m->delimiter_len) {
                if (m->state == MULTIPART_DATA)
                    m->on_part_end(m->ctx);
                m->state = MULTIPART_AFTER;
                return i;
            }
        } else {
            put_data(m, m->delimiter, m->matched);
            m->matched = 0;
            if (data[i] != '\r') {
                put_data(m, data + i, 1);
                i++;
            }
        }
    }
    return len;
}

int multipart_feed(struct multipart *m, const char *data, size_t len, struct err *err)
{
    size_t i = 0;
    int rc = SP_OK;

    while (rc == SP_OK && i < len) {
        switch (m->state) {
        case MULTIPART_PREAMBLE:
        case MULTIPART_DATA:
            i += feed_data(m, data + i, len - i);
            break;
        case MULTIPART_AFTER:
            rc = feed_after(m, data[i++], err);
            break;
        case MULTIPART_HEADERS:
            rc = feed_headers(m, data[i++], err);
            break;
        case MULTIPART_END:
            return SP_OK;
        case MULTIPART_STATE_COUNT:
            assert(false);
        }
    }
    return rc;
}

int multipart_finish(const struct multipart *m, struct err *err)
{
    if (m->state != MULTIPART_END)
        return err_set(err, SP_BAD_REQUEST, "multipart: the last boundary is missing");
    return SP_OK;
}
