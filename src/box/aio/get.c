/* get.c - the bytes of a file: looked at first, because each server has its own form for the errors of a download and its path
 * has to be absolute, then passed on as they come. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "box/aio/file.h"

static void on_over(struct passage *g)
{
    aio_end(aio_of(g));
}

/* What the box answered in place of the bytes. */
static void on_error(struct passage *g)
{
    struct aio_call *c = aio_of(g);
    char text[80];

    (void) snprintf(text, sizeof(text), "the sandbox answered %d instead of the file",
                    g->up.status);
    if (g->up.status == 404)
        aio_file_refuse(c, 404, "file_not_found", "No such file or directory");
    else if (g->up.status == 403)
        aio_file_refuse(c, 403, "permission_denied", "Permission denied");
    else if (g->up.status == 416)
        aio_file_refuse(c, 416, "no_range", "the file has no such range");
    else
        aio_fail(c, SP_BACKEND_FAILED, "%s", text);
}

static void copy_header(struct aio_call *c, const char *name, unsigned *count)
{
    const char *value = http_header(c->g.ex, name);

    if (value == NULL)
        return;
    buf_printf(&c->g.text, "%s: %s", name, value);
    buf_putc(&c->g.text, '\0');
    (*count)++;
}

static void download(struct aio_call *c, const char *path)
{
    struct passage *g = &c->g;
    unsigned count = 0;
    unsigned n = 0;

    buf_reset(&g->text);
    copy_header(c, "Range", &count);
    copy_header(c, "If-Range", &count);
    copy_header(c, "If-None-Match", &count);
    for (size_t at = 0; n < count; at += strlen(g->text.data + at) + 1)
        g->headers[n++] = g->text.data + at;
    g->headers[n++] = c->headers[2]; /* who we are; or NULL */
    g->headers[n] = NULL;
    buf_reset(&g->url);
    buf_printf(&g->url, "%s/v1/file/download?path=", c->base);
    buf_put_escaped(&g->url, path);
    if (buf_failed(&g->url) || buf_failed(&g->text)) {
        aio_fail(c, SP_INVALID_FIELD, "the path is too long");
        return;
    }
    httpc_request_fini(&g->up);
    g->up = (struct httpc_request){.method = NULL};
    g->on_error = on_error;
    g->on_over = on_over;
    proxy_start(g);
}

static void on_looked(struct aio_call *c, const struct buf *out)
{
    struct http_exchange *ex = c->g.ex;
    const char *at = buf_str(out);
    char owner[48];
    struct aio_entry e;

    if (!aio_file_next(&at, at + out->len, &e)) {
        aio_fail(c, SP_BACKEND_FAILED, "the shell of the sandbox wrote something unexpected");
        return;
    }
    if (strcmp(e.type, "directory") == 0) {
        aio_file_refuse(c, 400, "is_directory", "Is a directory");
        return;
    }
    if (strcmp(e.type, "file") != 0) {
        aio_file_refuse(c, 400, "not_regular", "Not a regular file");
        return;
    }
    (void) snprintf(owner, sizeof(owner), "%llu:%llu", (unsigned long long) e.uid,
                    (unsigned long long) e.gid);
    http_add_header(ex, "X-Sandpool-Mode", e.mode);
    http_add_header(ex, "X-Sandpool-Owner", owner);
    if (http_method(ex) == HTTP_METHOD_HEAD) {
        http_begin_sized(ex, 200, "application/octet-stream", e.size);
        http_end(ex);
        aio_end(c);
    } else {
        download(c, e.path);
    }
}

void aio_file_get(struct aio_call *c)
{
    struct aio_file *f = aio_file_of_query(c);

    if (f == NULL)
        return;
    aio_file_script(c);
    aio_file_put_path(c, "p", f->path);
    /* The server may have more rights than the commands, whose user is the one that counts. A FIFO would block. */
    buf_puts(&c->said, "if [ -f \"$p\" ]; then head -c 0 -- \"$p\" || exit 1; fi\n"
                       "stat -L -- \"$p\" >/dev/null || exit 1\n"
                       "find -L \"$p\" -maxdepth 0 -printf \"$f\" | base64\n");
    aio_script(c, on_looked);
}
