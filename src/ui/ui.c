/* ui.c - serves the files of the page. A browser runs no script but these, loads nothing from elsewhere and shows the page in
 * no frame: what boxes and callers choose (ids, metadata, names of files, output) is text, whatever it contains. */
#include "ui/ui.h"

#include <string.h>

#include "base/str.h"
#include "ui/files.h"

static const struct {
    const char *name;
    const char *value;
} headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-cache"}, /* asked again each time, and answered 304 */
    {"Vary", "Accept-Encoding"},
};

static const struct ui_file *find(const char *path)
{
    const char *name = path + strlen(UI_ROOT);

    name = name[0] == '/' ? name + 1 : "index.html";
    for (const struct ui_file *f = ui_files; f->name != NULL; f++) {
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

static bool takes_gzip(const struct http_exchange *ex)
{
    const char *accepted = http_header(ex, "Accept-Encoding");
    const char *gzip = accepted != NULL ? strstr(accepted, "gzip") : NULL;

    return gzip != NULL && strncmp(gzip + strlen("gzip"), ";q=0", 4) != 0;
}

static bool has_it(const struct http_exchange *ex, const struct ui_file *f)
{
    const char *known = http_header(ex, "If-None-Match");

    return known != NULL && strstr(known, f->etag) != NULL;
}

void ui_serve(struct http_exchange *ex)
{
    const char *path = http_path(ex);
    const struct ui_file *f = find(path);
    const char *body;
    const char *end;

    for (size_t i = 0; i < ARRAY_LEN(headers); i++)
        http_add_header(ex, headers[i].name, headers[i].value);
    if (strcmp(path, UI_ROOT "/") ==
        0) { /* names in the page are relative to the path without it */
        http_add_header(ex, "Location", ".." UI_ROOT);
        http_reply(ex, 308, "text/plain", "", 0);
        return;
    }
    if (f == NULL) {
        http_reply_error(ex, SP_NOT_FOUND, "there is no such file of the page", 0);
        return;
    }
    http_add_header(ex, "ETag", f->etag);
    if (has_it(ex, f)) {
        http_reply(ex, 304, f->type, "", 0);
        return;
    }
    body = f->plain;
    end = f->plain_end;
    if (f->zipped != NULL && takes_gzip(ex)) {
        http_add_header(ex, "Content-Encoding", "gzip");
        body = f->zipped;
        end = f->zipped_end;
    }
    http_reply(ex, 200, f->type, body, (size_t) (end - body));
}
