/* answer.c - the only file of the client that sees the HTTP parser: bytes to one answer. Interim
 * answers (100) are skipped; bytes after the answer make the connection unusable. */
#include "client/internal.h"

#include <llhttp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

struct answer_parser {
    llhttp_t http;
    llhttp_settings_t settings;
    struct answer *answer;
    char field[32]; /* the headers we care about are short; others are cut and match nothing */
    size_t field_len;
    char value[32];
    size_t value_len;
};

static struct answer_parser *parser_of(llhttp_t *http)
{
    return container_of(http, struct answer_parser, http);
}

static void collect(char *dst, size_t cap, size_t *used, const char *data, size_t len)
{
    size_t room = cap - 1 - *used;

    if (len > room)
        len = room;
    memcpy(dst + *used, data, len);
    *used += len;
    dst[*used] = '\0';
}

static int on_header_field(llhttp_t *http, const char *at, size_t len)
{
    struct answer_parser *p = parser_of(http);

    collect(p->field, sizeof(p->field), &p->field_len, at, len);
    return 0;
}

static int on_header_value(llhttp_t *http, const char *at, size_t len)
{
    struct answer_parser *p = parser_of(http);

    collect(p->value, sizeof(p->value), &p->value_len, at, len);
    return 0;
}

static int on_header_done(llhttp_t *http)
{
    struct answer_parser *p = parser_of(http);

    if (strcasecmp(p->field, "retry-after") == 0 &&
        !str_parse_u64(p->value, 0, 24 * 60 * 60, &p->answer->retry_after_s))
        p->answer->retry_after_s = 0; /* a date: nobody here sends one */
    if (strcasecmp(p->field, "x-sandpool-offset") == 0 &&
        !str_parse_u64(p->value, 0, INT64_MAX, &p->answer->offset))
        p->answer->offset = 0;
    if (strcasecmp(p->field, "sec-websocket-accept") == 0)
        str_copy_cut(p->answer->accept, sizeof(p->answer->accept), p->value);
    p->field_len = 0;
    p->value_len = 0;
    p->field[0] = '\0';
    p->value[0] = '\0';
    return 0;
}

static int on_headers_done(llhttp_t *http)
{
    struct answer *a = parser_of(http)->answer;

    a->status = llhttp_get_status_code(http);
    return a->is_head ? 1 : 0; /* 1: no body follows */
}

static int on_body(llhttp_t *http, const char *at, size_t len)
{
    struct answer *a = parser_of(http)->answer;

    if (a->on_data != NULL && a->status / 100 == 2) {
        a->is_stopped = !a->on_data(a->ctx, at, len);
        return a->is_stopped ? HPE_USER : 0;
    }
    buf_append(&a->body, at, len);
    return buf_failed(&a->body) ? HPE_USER : 0;
}

static int on_message_done(llhttp_t *http)
{
    struct answer *a = parser_of(http)->answer;

    a->is_raw = a->status == 101 && a->wants_upgrade;
    if (a->status / 100 == 1 && !a->is_raw) {
        a->status = 0;
        return 0;
    }
    a->is_done = true;
    a->can_keep = llhttp_should_keep_alive(http) != 0;
    return HPE_PAUSED;
}

void answer_init(struct answer *a, const char *peer, bool is_head)
{
    struct answer_parser *p = calloc(1, sizeof(*p));

    if (p == NULL)
        abort(); /* a few hundred bytes */
    memset(a, 0, sizeof(*a));
    a->peer = peer;
    a->parser = p;
    a->is_head = is_head;
    buf_init(&a->body, CLIENT_BODY_MAX);
    p->answer = a;
    llhttp_settings_init(&p->settings);
    p->settings.on_header_field = on_header_field;
    p->settings.on_header_value = on_header_value;
    p->settings.on_header_value_complete = on_header_done;
    p->settings.on_headers_complete = on_headers_done;
    p->settings.on_body = on_body;
    p->settings.on_message_complete = on_message_done;
    llhttp_init(&p->http, HTTP_RESPONSE, &p->settings);
}

void answer_fini(struct answer *a)
{
    free(a->parser);
    a->parser = NULL;
    buf_fini(&a->body);
}

int answer_feed(struct answer *a, const char *data, size_t len, struct sp_failure *f)
{
    llhttp_t *http = &a->parser->http;
    llhttp_errno_t e;

    if (len == 0) {
        if (a->is_started)
            (void) llhttp_finish(http); /* ends a body that lasts until the connection's end */
        a->can_keep = false;
        return a->is_done ? SP_OK
                          : client_fail(f, SP_IO, "%s closed the connection %s", a->peer,
                                        a->is_started ? "in the middle of its answer"
                                                      : "without an answer");
    }
    a->is_started = true;
    e = llhttp_execute(http, data, len);
    if (a->is_done && llhttp_get_error_pos(http) != data + len)
        a->can_keep = false;
    if (a->is_raw)
        buf_append(&a->body, llhttp_get_error_pos(http),
                   (size_t) (data + len - llhttp_get_error_pos(http)));
    if (a->is_done || a->is_stopped || e == HPE_OK)
        return SP_OK;
    if (buf_failed(&a->body))
        return client_fail(f, SP_TOO_BIG, "the answer of %s is larger than %d MB", a->peer,
                           CLIENT_BODY_MAX / (1024 * 1024));
    return client_fail(f, SP_PROTOCOL, "the answer of %s is no HTTP (%s)", a->peer,
                       llhttp_errno_name(e));
}
