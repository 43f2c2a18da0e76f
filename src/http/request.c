/* request.c - what a handler may ask about its request. Nothing here changes anything. */
#include <string.h>

#include "http/conn.h"
#include "http/target.h"

const char *http_method_name(enum http_method m)
{
    static const char *const names[HTTP_METHOD_COUNT] = {
        [HTTP_METHOD_GET] = "GET",         [HTTP_METHOD_HEAD] = "HEAD",
        [HTTP_METHOD_POST] = "POST",       [HTTP_METHOD_PUT] = "PUT",
        [HTTP_METHOD_PATCH] = "PATCH",     [HTTP_METHOD_DELETE] = "DELETE",
        [HTTP_METHOD_CONNECT] = "CONNECT", [HTTP_METHOD_OTHER] = "(other)",
    };

    assert(m < HTTP_METHOD_COUNT);
    return names[m];
}

enum http_method http_method(const struct http_exchange *ex)
{
    return ex->req.method;
}

const char *http_method_text(const struct http_exchange *ex)
{
    return ex->req.method_text;
}

const char *http_path(const struct http_exchange *ex)
{
    return parse_text(&ex->req, ex->req.path);
}

const char *http_target(const struct http_exchange *ex)
{
    return parse_text(&ex->req, ex->req.target);
}

static const struct http_param *find_param(const struct http_exchange *ex, const char *name)
{
    for (unsigned i = 0; i < ex->match.param_count; i++) {
        if (strcmp(ex->match.params[i].name, name) == 0)
            return &ex->match.params[i];
    }
    return NULL;
}

const char *http_path_param(const struct http_exchange *ex, const char *name)
{
    const struct http_param *param = find_param(ex, name);

    return param != NULL ? param->value : NULL;
}

const char *http_path_behind(const struct http_exchange *ex, const char *name)
{
    const struct http_param *param = find_param(ex, name);

    assert(param != NULL);
    return http_target(ex) + param->end;
}

bool http_query(const struct http_exchange *ex, const char *name, char *dst, size_t cap)
{
    return target_query(http_target(ex), name, dst, cap);
}

const char *http_header(const struct http_exchange *ex, const char *name)
{
    return parse_header(&ex->req, name);
}

bool http_header_at(const struct http_exchange *ex, unsigned index, const char **ret_name,
                    const char **ret_value)
{
    if (index >= ex->req.header_count)
        return false;
    *ret_name = parse_text(&ex->req, ex->req.headers[index].name);
    *ret_value = parse_text(&ex->req, ex->req.headers[index].value);
    return true;
}

int64_t http_body_length(const struct http_exchange *ex)
{
    if (!ex->req.has_body)
        return 0;
    return ex->req.content_length > 0 ? (int64_t) ex->req.content_length : -1;
}

const struct http_route *http_route_of(const struct http_exchange *ex)
{
    return ex->match.route;
}

const struct http_peer *http_peer(const struct http_exchange *ex)
{
    return &ex->conn->peer;
}

const char *http_body(const struct http_exchange *ex, size_t *ret_len)
{
    if (ret_len != NULL)
        *ret_len = ex->body.len;
    return buf_str(&ex->body);
}

void *http_server_ctx(const struct http_exchange *ex)
{
    return ex->conn->server->config.ctx;
}

struct loop *http_loop(const struct http_exchange *ex)
{
    return ex->conn->server->loop;
}

void http_set_ctx(struct http_exchange *ex, void *ctx, void (*on_gone)(void *ctx))
{
    ex->ctx = ctx;
    ex->on_gone = on_gone;
}

void *http_ctx(const struct http_exchange *ex)
{
    return ex->ctx;
}
