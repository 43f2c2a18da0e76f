/* pipe.c - what a shell reports: "<exit code> <directory>" and a NUL for each command. */
#include "agent/shell/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { REPORT_MAX = 8192 };

struct shell_pipe {
    uv_poll_t poll;
    int fd;
    bool is_closed;
    void (*on_report)(void *ctx, int code, const char *cwd);
    void *ctx;
    struct buf text;
};

static void on_handle_closed(void *ctx)
{
    struct shell_pipe *p = ctx;

    buf_fini(&p->text);
    free(p);
}

struct shell_pipe *shell_pipe_close(struct shell_pipe *p)
{
    if (p == NULL)
        return NULL;
    p->is_closed = true;
    loop_close_handle((uv_handle_t *) &p->poll, on_handle_closed, p);
    (void) close(p->fd);
    return NULL;
}

static void report(struct shell_pipe *p)
{
    while (!p->is_closed) {
        char *nul = p->text.len > 0 ? memchr(p->text.data, '\0', p->text.len) : NULL;
        char *space = nul != NULL ? strchr(p->text.data, ' ') : NULL;

        if (nul == NULL)
            return;
        if (space != NULL)
            p->on_report(p->ctx, (int) strtol(p->text.data, NULL, 10), space + 1);
        buf_consume(&p->text, (size_t) (nul - p->text.data) + 1);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct shell_pipe *p = container_of(poll, struct shell_pipe, poll);
    char chunk[1024];
    ssize_t n = read(p->fd, chunk, sizeof(chunk));

    (void) status; /* read() says what is wrong */
    (void) events;
    if (n > 0) {
        buf_append(&p->text, chunk, (size_t) n);
        if (buf_failed(&p->text))
            buf_reset(&p->text); /* not a report that a shell of ours would write */
        report(p);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        (void) uv_poll_stop(poll); /* the shell is dead or closed it: its death is noticed */
    }
}

int shell_pipe_open(struct agent *a, void (*on_report)(void *, int code, const char *cwd),
                    void *ctx, struct shell_pipe **ret, int *ret_go, int *ret_theirs,
                    struct err *err)
{
    struct shell_pipe *p;
    int go[2];
    int reports[2];
    int r;

    if (pipe2(go, O_CLOEXEC) != 0)
        return err_sys(err, SP_IO, errno, "no pipe");
    *ret_go = go[1];
    ret_theirs[0] = go[0];
    if (pipe2(reports, O_CLOEXEC) != 0)
        return err_sys(err, SP_IO, errno, "no pipe");
    ret_theirs[1] = reports[1];
    (void) fcntl(reports[0], F_SETFL, O_NONBLOCK); /* cannot fail for a pipe */
    (void) fcntl(go[1], F_SETFL, O_NONBLOCK);
    p = xcalloc(1, sizeof(*p));
    r = uv_poll_init(&a->loop.uv, &p->poll, reports[0]);
    if (r != 0) {
        (void) close(reports[0]);
        free(p);
        return err_sys(err, SP_IO, -r, "pipe of a shell");
    }
    p->fd = reports[0];
    p->on_report = on_report;
    p->ctx = ctx;
    buf_init(&p->text, REPORT_MAX);
    (void) uv_poll_start(&p->poll, UV_READABLE, on_readable); /* just opened: cannot fail */
    *ret = p;
    return SP_OK;
}

static void put_quoted(struct buf *b, const char *text)
{
    buf_putc(b, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            buf_puts(b, "'\\''");
        else
            buf_putc(b, *text);
    }
    buf_putc(b, '\'');
}

int shell_pipe_script(int fd, const char *exec_dir, const char *command, struct err *err)
{
    struct buf text;
    int r = SP_OK;

    buf_init(&text, 2 * 1024 * 1024);
    if (exec_dir != NULL) {
        buf_puts(&text, "cd -- ");
        put_quoted(&text, exec_dir);
        buf_putc(&text, '\n');
    }
    buf_puts(&text, command);
    if (buf_failed(&text) || ftruncate(fd, 0) != 0 ||
        pwrite(fd, text.data, text.len, 0) != (ssize_t) text.len)
        r = err_set(err, SP_NO_MEMORY, "no memory for a command of %zu bytes", strlen(command));
    buf_fini(&text);
    return r;
}
