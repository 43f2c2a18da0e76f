/* cmd_backup.c - sandpool backup: the daemon sends its database, this writes it. The file is a new one, for its
 * owner only: it holds the tokens of boxes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const char magic[] = "SQLite format 3"; /* and its NUL */

struct writing {
    int fd;
    uint64_t bytes;
    char head[sizeof(magic)];
    int error;
};

static bool on_data(void *ctx, const char *data, size_t len)
{
    struct writing *w = ctx;

    if (w->bytes < sizeof(w->head))
        memcpy(w->head + w->bytes, data, MIN_OF(len, sizeof(w->head) - (size_t) w->bytes));
    w->bytes += len;
    while (len > 0) {
        ssize_t n = write(w->fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            w->error = errno;
            return false;
        }
        data += n;
        len -= (size_t) n;
    }
    return true;
}

static int fail_here(struct cli *c, const char *path, const char *what, const char *why)
{
    struct sp_failure f = {.code = SP_IO};

    (void) snprintf(f.message, sizeof(f.message), "'%.300s' %s: %.100s", path, what, why);
    return cli_fail(c, &f);
}

static int give_up(struct cli *c, const char *path, const char *why)
{
    (void) unlink(path); /* half a copy helps nobody */
    return fail_here(c, path, "was not written", why);
}

int cmd_backup(struct cli *c)
{
    const char *path = c->args.operands[0];
    struct writing w = {.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    struct sp_failure failure = {.code = SP_OK};
    int r;

    if (w.fd < 0)
        return fail_here(c, path, "cannot be made",
                         errno == EEXIST ? "it exists; name another one" : strerror(errno));
    r = sp_stream(c->client, "/v1/backup", NULL, on_data, &w, &failure);
    if (w.error == 0 && r == SP_OK && fsync(w.fd) != 0)
        w.error = errno;
    if (close(w.fd) != 0 && w.error == 0)
        w.error = errno;
    if (w.error != 0)
        return give_up(c, path, strerror(w.error));
    if (r != SP_OK) {
        (void) unlink(path); /* as above */
        return cli_fail(c, &failure);
    }
    if (w.bytes < sizeof(magic) || memcmp(w.head, magic, sizeof(magic)) != 0)
        return give_up(c, path, "the daemon did not send a database");
    if (cli_wants_json(c))
        (void) fprintf(c->out, "{\"bytes\":%llu}\n", (unsigned long long) w.bytes);
    else
        (void) fprintf(c->out, "%llu bytes\n", (unsigned long long) w.bytes);
    return CLI_OK;
}
