/* cmd_cp.c - sandpool cp: files and trees into a box and out of it. A tree passes as one archive; tar(1) of this machine
 * makes or unpacks it here, the agent there. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/transfer.h"

enum { PATH_CAP = 4096 };

struct copy {
    struct cli *c;
    char id[CLI_ID_MAX];
    char there[PATH_CAP]; /* in the box */
    const char *here;     /* "-": our input or output */
    struct transfer transfer;
};

/* --- names --- */

/* The part before the colon of "ID:PATH"; 0 when it is a path of this machine. */
static size_t box_part(const char *name)
{
    const char *colon = strchr(name, ':');

    if (colon == NULL || name[0] == '/' || name[0] == '.')
        return 0;
    if (strncmp(name, "thread:", 7) == 0 || strncmp(name, "box:", 4) == 0)
        colon = strchr(colon + 1, ':');
    return colon != NULL ? (size_t) (colon - name) : 0;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Puts the name of `from` behind a directory. False: too long, or it has no name. */
static bool put_into(char path[PATH_CAP], const char *from)
{
    char name[PATH_CAP];
    size_t len = strlen(from);

    while (len > 1 && from[len - 1] == '/')
        len--;
    if (!str_copy_n(name, sizeof(name), from, len))
        return false;
    from = last_part(name);
    if (str_is_empty(from) || strcmp(from, ".") == 0 || strcmp(from, "..") == 0)
        return true; /* the content, not the directory */
    len = strlen(path);
    return (size_t) snprintf(path + len, PATH_CAP - len, "%s%s",
                             len > 0 && path[len - 1] == '/' ? "" : "/", from) < PATH_CAP - len;
}

static void put_target(struct buf *out, const char *call, const char *path)
{
    buf_printf(out, "/files%s?path=", call);
    cli_escape(out, path);
}

/* --- what is there --- */

enum kind { KIND_NONE, KIND_FILE, KIND_DIRECTORY };

/* In the box; the mode of a file, too. */
static int look_there(struct copy *k, enum kind *ret, unsigned *ret_mode, struct sp_failure *f)
{
    struct sp_box_call call = {.method = "GET"};
    struct json_doc *doc;
    struct buf target;
    const char *text;
    int r;

    buf_init(&target, 4 * PATH_CAP);
    put_target(&target, "/stat", k->there);
    buf_puts(&target, "&follow=1");
    call.target = buf_str(&target);
    r = sp_box_begin(k->transfer.box, &call, f);
    if (r == SP_OK)
        r = sp_box_wait(k->transfer.box, 60 * 1000, f);
    buf_fini(&target);
    *ret = KIND_NONE;
    if (r != SP_OK)
        return f->http_status == 404 && strcmp(f->name, "file_not_found") == 0 ? SP_OK : r;
    text = sp_box_answer(k->transfer.box);
    doc = json_parse(text, strlen(text), 1024 * 1024, NULL);
    *ret = strcmp(show_str(json_root(doc), "type"), "directory") == 0 ? KIND_DIRECTORY : KIND_FILE;
    *ret_mode = (unsigned) strtoul(show_str(json_root(doc), "mode"), NULL, 8) & 0777;
    k->transfer.total = show_u64(json_root(doc), "size");
    (void) json_doc_free(doc);
    return SP_OK;
}

static enum kind look_here(const char *path, struct stat *st)
{
    if (stat(path, st) != 0)
        return KIND_NONE;
    return S_ISDIR(st->st_mode) ? KIND_DIRECTORY : KIND_FILE;
}

/* --- tar --- */

/* Starts tar in `dir` with one end of a pipe; the other is *ret_fd. */
static pid_t start_tar(const char *dir, bool is_making, int *ret_fd)
{
    int fds[2];
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        (void) signal(SIGPIPE, SIG_DFL); /* cannot fail for a valid number */
        if (dup2(is_making ? fds[1] : fds[0], is_making ? STDOUT_FILENO : STDIN_FILENO) >= 0) {
            if (is_making)
                (void) execlp("tar", "tar", "-C", dir, "-cf", "-", ".", (char *) NULL);
            else
                (void) execlp("tar", "tar", "-C", dir, "-xf", "-", "--no-same-owner",
                              (char *) NULL);
        }
        _exit(127);
    }
    (void) close(is_making ? fds[1] : fds[0]);
    *ret_fd = is_making ? fds[0] : fds[1];
    if (pid < 0)
        (void) close(*ret_fd);
    return pid;
}

static int end_tar(pid_t pid, int fd, int r, struct sp_failure *f)
{
    int status = 0;

    (void) close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (r != SP_OK || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return r;
    *f = (struct sp_failure){.code = SP_IO};
    (void) snprintf(f->message, sizeof(f->message), "%s",
                    WIFEXITED(status) && WEXITSTATUS(status) == 127
                        ? "tar is not installed here; directories are copied with it"
                        : "tar could not copy everything, see above");
    return SP_IO;
}

static int fail_here(const char *what, const char *path, struct sp_failure *f)
{
    *f = (struct sp_failure){.code = SP_IO};
    (void) snprintf(f->message, sizeof(f->message), "%s '%.300s': %s", what, path, strerror(errno));
    return SP_IO;
}

/* --- into the box --- */

static int send_tree(struct copy *k, struct sp_failure *f)
{
    struct buf target;
    int r;
    pid_t pid = start_tar(k->here, true, &k->transfer.fd);

    if (pid < 0)
        return fail_here("cannot start tar for", k->here, f);
    buf_init(&target, 4 * PATH_CAP);
    put_target(&target, "/tar", k->there);
    r = transfer_send(&k->transfer, buf_str(&target), f);
    buf_fini(&target);
    return end_tar(pid, k->transfer.fd, r, f);
}

static int send_file(struct copy *k, const struct stat *st, struct sp_failure *f)
{
    bool is_input = strcmp(k->here, "-") == 0;
    struct buf target;
    int r;

    k->transfer.fd = is_input ? STDIN_FILENO : open(k->here, O_RDONLY | O_CLOEXEC);
    if (k->transfer.fd < 0)
        return fail_here("cannot read", k->here, f);
    k->transfer.total = is_input ? 0 : (uint64_t) st->st_size;
    buf_init(&target, 4 * PATH_CAP);
    put_target(&target, "", k->there);
    if (!is_input)
        buf_printf(&target, "&mode=0%o", (unsigned) st->st_mode & 0777);
    r = transfer_send(&k->transfer, buf_str(&target), f);
    buf_fini(&target);
    if (!is_input)
        (void) close(k->transfer.fd);
    return r;
}

static int copy_in(struct copy *k, struct sp_failure *f)
{
    struct stat st = {0};
    bool is_input = strcmp(k->here, "-") == 0;
    enum kind kind = is_input ? KIND_FILE : look_here(k->here, &st);
    enum kind there;
    unsigned mode;
    bool is_inside = k->there[strlen(k->there) - 1] == '/';
    int r;

    if (kind == KIND_NONE)
        return fail_here("cannot read", k->here, f);
    r = look_there(k, &there, &mode, f);
    k->transfer.total = 0;
    if (r != SP_OK)
        return r;
    if ((there == KIND_DIRECTORY || (is_inside && kind == KIND_FILE)) && !is_input &&
        !put_into(k->there, k->here))
        return fail_here("the path is too long:", k->here, f);
    return kind == KIND_DIRECTORY ? send_tree(k, f) : send_file(k, &st, f);
}

/* --- out of the box --- */

static int receive_tree(struct copy *k, const char *to, struct sp_failure *f)
{
    struct buf target;
    int r;
    pid_t pid;

    if (mkdir(to, 0777) != 0 && errno != EEXIST)
        return fail_here("cannot make", to, f);
    pid = start_tar(to, false, &k->transfer.fd);
    if (pid < 0)
        return fail_here("cannot start tar for", to, f);
    k->transfer.total = 0;
    buf_init(&target, 4 * PATH_CAP);
    put_target(&target, "/tar", k->there);
    r = transfer_receive(&k->transfer, buf_str(&target), f);
    buf_fini(&target);
    return end_tar(pid, k->transfer.fd, r, f);
}

/* Under another name until it is whole. */
static int receive_file(struct copy *k, const char *to, unsigned mode, struct sp_failure *f)
{
    bool is_output = strcmp(to, "-") == 0;
    char part[PATH_CAP + 16];
    struct buf target;
    int r;

    (void) snprintf(part, sizeof(part), "%s.XXXXXX", to);
    k->transfer.fd = is_output ? STDOUT_FILENO : mkostemp(part, O_CLOEXEC);
    if (k->transfer.fd < 0)
        return fail_here("cannot write", to, f);
    buf_init(&target, 4 * PATH_CAP);
    put_target(&target, "", k->there);
    r = transfer_receive(&k->transfer, buf_str(&target), f);
    buf_fini(&target);
    if (is_output)
        return r;
    if (r == SP_OK && fchmod(k->transfer.fd, mode) != 0)
        r = fail_here("cannot set the mode of", to, f);
    if (close(k->transfer.fd) != 0 && r == SP_OK)
        r = fail_here("cannot write", to, f);
    if (r == SP_OK && rename(part, to) != 0)
        r = fail_here("cannot write", to, f);
    if (r != SP_OK)
        (void) unlink(part);
    return r;
}

static int copy_out(struct copy *k, struct sp_failure *f)
{
    char to[PATH_CAP];
    struct stat st;
    enum kind there;
    unsigned mode = 0644;
    int r = look_there(k, &there, &mode, f);

    if (r != SP_OK)
        return r;
    if (there == KIND_NONE) {
        *f = (struct sp_failure){.code = SP_IO};
        (void) snprintf(f->message, sizeof(f->message), "there is no '%.300s' in the box",
                        k->there);
        return SP_IO;
    }
    if (!str_copy(to, sizeof(to), k->here) ||
        (look_here(to, &st) == KIND_DIRECTORY && !put_into(to, k->there)))
        return fail_here("the path is too long:", k->here, f);
    return there == KIND_DIRECTORY ? receive_tree(k, to, f) : receive_file(k, to, mode, f);
}

int cmd_cp(struct cli *c)
{
    const char *from = c->args.operands[0];
    const char *to = c->args.operands[1];
    size_t from_box = box_part(from);
    size_t to_box = box_part(to);
    const char *remote = from_box > 0 ? from : to;
    size_t len = from_box > 0 ? from_box : to_box;
    struct copy k = {.c = c, .here = from_box > 0 ? to : from};
    struct sp_failure f = {0};
    char name[CLI_ID_MAX * 2];
    int code;
    int r;

    if ((from_box > 0) == (to_box > 0))
        return cli_fail_usage(c, "one of the two is in a box, like thread-1:/workspace/a.txt");
    if (!str_copy_n(name, sizeof(name), remote, len) ||
        !str_copy(k.there, sizeof(k.there), remote[len + 1] != '\0' ? remote + len + 1 : "."))
        return cli_fail_usage(c, "'%.80s' is too long", remote);
    code = cli_resolve(c, name, k.id);
    if (code != CLI_OK)
        return code;
    (void) signal(SIGPIPE, SIG_IGN); /* cannot fail for a valid number */
    k.transfer.box = sp_box_new(c->client, k.id);
    k.transfer.name = last_part(k.there);
    k.transfer.progress = transfer_progress(c);
    r = from_box > 0 ? copy_out(&k, &f) : copy_in(&k, &f);
    sp_box_free(k.transfer.box);
    return r == SP_OK ? CLI_OK : cli_fail(c, &f);
}
