/* cmd_cp.c - sandpool cp: files and trees into a box and out of it. A tree passes as one archive; tar(1) of this machine
 * makes or unpacks it here, the agent there. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/transfer.h"
#include "sandpool/files.h"

enum { PATH_CAP = 4096 };

struct copy {
    struct cli *c;
    char id[CLI_ID_MAX];
    char there[PATH_CAP]; /* in the box */
    const char *here;     /* "-": our input or output */
    struct sp_box *box;
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

/* --- what is there --- */

enum kind { KIND_NONE, KIND_FILE, KIND_DIRECTORY };

/* In the box; the mode of a file, too. */
static int look_there(struct copy *k, enum kind *ret, unsigned *ret_mode, struct sp_failure *f)
{
    struct sp_file_stat st;
    int r = sp_file_stat(k->box, k->there, NULL, &st, f);

    *ret = KIND_NONE;
    if (r != SP_OK)
        return strcmp(f->name, "file_not_found") == 0 ? SP_OK : r;
    *ret = st.type == SP_FILE_DIRECTORY ? KIND_DIRECTORY : KIND_FILE;
    *ret_mode = st.mode & 0777;
    k->transfer.total = st.size;
    return SP_OK;
}

static enum kind look_here(const char *path, struct stat *st)
{
    if (stat(path, st) != 0)
        return KIND_NONE;
    return S_ISDIR(st->st_mode) ? KIND_DIRECTORY : KIND_FILE;
}

/* --- tar --- */

/* The archive is a box's: nothing of it may become a device or a setuid program of root here. */
static void exec_unpack(const char *dir)
{
    (void) prctl(PR_CAPBSET_DROP, CAP_MKNOD, 0, 0, 0); /* who may not do this cannot make devices */
    (void) execlp("tar", "tar", "-C", dir, "-xf", "-", "--no-same-owner", "--no-same-permissions",
                  (char *) NULL);
}

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
                exec_unpack(dir);
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

static struct sp_file_options options_of(struct copy *k)
{
    transfer_begin(&k->transfer, k->c);
    return (struct sp_file_options){.on_progress = transfer_count, .ctx = &k->transfer};
}

/* --- into the box --- */

static int send_tree(struct copy *k, struct sp_failure *f)
{
    struct sp_file_options o = options_of(k);
    int fd;
    int r;
    pid_t pid = start_tar(k->here, true, &fd);

    if (pid < 0)
        return fail_here("cannot start tar for", k->here, f);
    r = sp_tree_put(k->box, k->there, &o, fd, f);
    return end_tar(pid, fd, r, f);
}

static int send_file(struct copy *k, const struct stat *st, struct sp_failure *f)
{
    bool is_input = strcmp(k->here, "-") == 0;
    struct sp_file_options o = options_of(k);
    int fd = is_input ? STDIN_FILENO : open(k->here, O_RDONLY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return fail_here("cannot read", k->here, f);
    k->transfer.total = is_input ? 0 : (uint64_t) st->st_size;
    o.mode = is_input ? 0 : (unsigned) st->st_mode & 0777;
    r = sp_file_put(k->box, k->there, &o, fd, f);
    if (!is_input)
        (void) close(fd);
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
    struct sp_file_options o = options_of(k);
    int fd;
    int r;
    pid_t pid;

    if (mkdir(to, 0777) != 0 && errno != EEXIST)
        return fail_here("cannot make", to, f);
    pid = start_tar(to, false, &fd);
    if (pid < 0)
        return fail_here("cannot start tar for", to, f);
    k->transfer.total = 0;
    r = sp_tree_get(k->box, k->there, &o, fd, f);
    return end_tar(pid, fd, r, f);
}

/* Under another name until it is whole. */
static int receive_file(struct copy *k, const char *to, unsigned mode, struct sp_failure *f)
{
    bool is_output = strcmp(to, "-") == 0;
    struct sp_file_options o = options_of(k);
    char part[PATH_CAP + 16];
    int fd;
    int r;

    (void) snprintf(part, sizeof(part), "%s.XXXXXX", to);
    fd = is_output ? STDOUT_FILENO : mkostemp(part, O_CLOEXEC);
    if (fd < 0)
        return fail_here("cannot write", to, f);
    r = sp_file_get(k->box, k->there, &o, fd, f);
    if (is_output)
        return r;
    if (r == SP_OK && fchmod(fd, mode) != 0)
        r = fail_here("cannot set the mode of", to, f);
    if (close(fd) != 0 && r == SP_OK)
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
    k.box = sp_box_new(c->client, k.id);
    k.transfer.name = last_part(k.there);
    r = from_box > 0 ? copy_out(&k, &f) : copy_in(&k, &f);
    transfer_end(&k.transfer);
    sp_box_free(k.box);
    return r == SP_OK ? CLI_OK : cli_fail(c, &f);
}
