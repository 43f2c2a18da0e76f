/* snapshot_file.c - a snapshot to a file, and back. The file is for its owner only: all that the box had written is in it. */
#include "cli/snapshot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/transfer.h"
#include "sandpool/box.h"

enum { TARGET_MAX = 4096, NAME_MAX_LEN = 64, ANSWER_MAX = 1024 * 1024 };

static int fail_here(struct cli *c, const char *what, const char *path)
{
    struct sp_failure f = {.code = SP_IO};

    (void) snprintf(f.message, sizeof(f.message), "%s '%.300s': %s", what, path, strerror(errno));
    return cli_fail(c, &f);
}

/* --- export --- */

static int receive(struct cli *c, const char *target, const char *name, int fd,
                   struct sp_failure *f)
{
    struct transfer shown = {.name = name};
    struct sp_transfer t = {.fd = fd, .on_progress = transfer_count, .ctx = &shown};
    struct sp_box *daemon = sp_box_new_daemon(c->client);
    int r;

    transfer_begin(&shown, c);
    r = sp_box_receive(daemon, target, &t, f);
    transfer_end(&shown);
    sp_box_free(daemon);
    return r;
}

int snapshot_export(struct cli *c)
{
    const char *id = c->args.operands[1];
    const char *path = c->args.operand_count > 2 ? c->args.operands[2] : NULL;
    const char *format = cli_option(&c->args, "format");
    struct sp_failure f = {.code = SP_OK};
    char own[NAME_MAX_LEN];
    struct buf target;
    bool is_output;
    bool is_image;
    int fd;
    int r;

    if (format != NULL && strcmp(format, "sandpool") != 0 && strcmp(format, "oci") != 0)
        return cli_fail_usage(c, "--format is 'sandpool' or 'oci'");
    is_image = format != NULL && strcmp(format, "oci") == 0;
    (void) snprintf(own, sizeof(own), "%.32s.tar%s", id, is_image ? "" : ".zst");
    path = path != NULL ? path : own;
    is_output = strcmp(path, "-") == 0;
    if (strchr(own, '/') != NULL)
        return cli_fail_usage(c, "'%.40s' is not the id of a snapshot", id);
    fd = is_output ? STDOUT_FILENO : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_here(c, "cannot make", path);
    (void) signal(SIGPIPE, SIG_IGN); /* cannot fail for a valid number */
    buf_init(&target, TARGET_MAX);
    buf_puts(&target, "/v1/snapshots/");
    cli_escape(&target, id);
    buf_puts(&target, is_image ? "/export?format=oci" : "/export");
    r = receive(c, buf_str(&target), path, fd, &f);
    buf_fini(&target);
    if (is_output)
        return r == SP_OK ? CLI_OK : cli_fail(c, &f);
    if (r == SP_OK && fsync(fd) != 0)
        r = f.code = SP_IO;
    if (close(fd) != 0 && r == SP_OK)
        r = f.code = SP_IO;
    if (r == SP_OK) {
        if (cli_wants_json(c))
            (void) fprintf(c->out, "{}\n");
        return CLI_OK;
    }
    (void) unlink(path); /* a part of it helps nobody */
    return f.message[0] != '\0' ? cli_fail(c, &f) : fail_here(c, "cannot write", path);
}

/* --- import --- */

static void add_query(struct buf *target, const char *name, const char *value)
{
    if (value == NULL)
        return;
    buf_printf(target, "%c%s=", strchr(buf_str(target), '?') != NULL ? '&' : '?', name);
    cli_escape(target, value);
}

static int send_file(struct cli *c, const char *path, int fd, struct sp_failure *f)
{
    struct transfer shown = {.name = path};
    struct sp_transfer t = {
        .method = "POST", .fd = fd, .on_progress = transfer_count, .ctx = &shown};
    struct sp_box *daemon = sp_box_new_daemon(c->client);
    struct json_doc *doc;
    struct buf target;
    struct stat st;
    struct err err;
    int r;

    buf_init(&target, TARGET_MAX);
    buf_puts(&target, "/v1/snapshots/import");
    add_query(&target, "profile", cli_option(&c->args, "profile"));
    add_query(&target, "name", cli_option(&c->args, "name"));
    add_query(&target, "any_base", cli_flag(&c->args, "any-base") ? "1" : NULL);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        shown.total = (uint64_t) st.st_size;
    transfer_begin(&shown, c);
    r = sp_box_send(daemon, buf_str(&target), &t, f);
    transfer_end(&shown);
    if (r == SP_OK && cli_wants_json(c)) {
        (void) fprintf(c->out, "%s\n", sp_box_answer(daemon));
    } else if (r == SP_OK) {
        doc = json_parse(sp_box_answer(daemon), strlen(sp_box_answer(daemon)), ANSWER_MAX, &err);
        if (doc != NULL)
            (void) fprintf(c->out, "%s\n", show_str(json_root(doc), "snapshot_id"));
        (void) json_doc_free(doc);
    }
    buf_fini(&target);
    sp_box_free(daemon);
    return r;
}

int snapshot_import(struct cli *c)
{
    const char *path = c->args.operands[1];
    bool is_input = strcmp(path, "-") == 0;
    struct sp_failure f = {.code = SP_OK};
    int fd = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return fail_here(c, "cannot read", path);
    (void) signal(SIGPIPE, SIG_IGN); /* cannot fail for a valid number */
    r = send_file(c, is_input ? "input" : path, fd, &f);
    if (!is_input)
        (void) close(fd); /* only read */
    return r == SP_OK ? CLI_OK : cli_fail(c, &f);
}
