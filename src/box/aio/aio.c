/* aio.c - which native call becomes what. */
#include "box/aio/aio.h"

#include <stdio.h>
#include <string.h>

#include "box/aio/call.h"

/* Of the path behind the id; "#" stands for a part. */
static const struct {
    const char *method;
    const char *path;
    void (*run)(struct aio_call *c); /* NULL: it cannot be done, because */
    const char *reason;
} calls[] = {
    {"POST", "/exec", aio_exec, NULL},
    {"POST", "/jobs", aio_job_start, NULL},
    {"GET", "/jobs", aio_job_list, NULL},
    {"GET", "/jobs/#", aio_job_get, NULL},
    {"DELETE", "/jobs/#", aio_job_end, NULL},
    {"POST", "/jobs/#/wait", aio_job_wait, NULL},
    {"GET", "/jobs/#/output", aio_job_output, NULL},
    {"POST", "/jobs/#/signal", aio_job_signal, NULL},
    {"POST", "/jobs/#/stdin", NULL, "its API cannot end the input of a command"},
    {"POST", "/jobs/#/resize", NULL, "its jobs have no terminal"},
    {"GET", "/jobs/#/attach", NULL, "its API has no connection for input and output of a command"},
    {"GET", "/files", aio_file_get, NULL},
    {"HEAD", "/files", aio_file_get, NULL},
    {"PUT", "/files", aio_file_put, NULL},
    {"DELETE", "/files", aio_file_delete, NULL},
    {"GET", "/files/stat", aio_file_stat, NULL},
    {"GET", "/files/list", aio_file_list, NULL},
    {"POST", "/files/mkdir", aio_file_mkdir, NULL},
    {"POST", "/files/move", aio_file_move, NULL},
    {"POST", "/files/copy", aio_file_copy, NULL},
    {"GET", "/files/tar", NULL,
     "its API has no archives; copy files, or an archive made by a command"},
    {"PUT", "/files/tar", NULL,
     "its API has no archives; copy an archive and unpack it by a command"},
    {"GET", "/files/watch", NULL, "changes of files are not followed in it"},
    {"GET", "/ports", aio_port_list, NULL},
};

static bool is_path(const char *pattern, const char *path)
{
    size_t len = strcspn(path, "?");
    const char *end = path + len;

    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '#') {
            while (path < end && *path != '/')
                path++;
        } else if (path < end && *path == *pattern) {
            path++;
        } else {
            return false;
        }
    }
    return path == end;
}

void box_aio_pass(struct box_proxy *p, struct http_exchange *ex,
                  const struct box_proxy_limits *limits, const struct box_proxy_to *to)
{
    const char *reason = "its API has nothing like it";
    char text[240];

    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        if (strcmp(http_method_text(ex), calls[i].method) != 0 || !is_path(calls[i].path, to->rest))
            continue;
        if (calls[i].run != NULL) {
            struct aio_call *c = aio_call_new(p, ex, limits, to);

            if (c != NULL)
                calls[i].run(c);
            return;
        }
        reason = calls[i].reason;
    }
    (void) snprintf(text, sizeof(text), "This sandbox has no agent of sandpool, and %s", reason);
    p->config.refuse(ex, 501, 0, text);
}
