/* cmd_doctor.c - sandpool doctor: what the backends found on this machine. The daemon knows; without
 * one, `sandpoold --doctor` makes the same examination. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/run.h"

#define SERVICE_CONFIG "/etc/sandpool/config.yaml"

enum {
    ANSWER_MAX = 16 * 1024 * 1024,
    EXAM_MS = 120 * 1000,
    SUBJECT_MAX = 28,
    LEVEL_WIDTH = 6,
    INDENT = 2,
};

extern char **environ;

/* --- without a daemon --- */

/* Beside this program, else wherever the PATH has it. */
static void find_daemon(char *dst, size_t cap)
{
    ssize_t len = readlink("/proc/self/exe", dst, cap - 1);
    char *slash;

    dst[len > 0 ? len : 0] = '\0';
    slash = strrchr(dst, '/');
    if (slash != NULL) {
        size_t used = (size_t) (slash + 1 - dst);

        if (str_copy(slash + 1, cap - used, "sandpoold") && access(dst, X_OK) == 0)
            return;
    }
    str_copy_cut(dst, cap, "sandpoold");
}

static const char *config_path(const struct cli *c)
{
    const char *given = cli_option(&c->args, "config");

    if (given != NULL)
        return given;
    return access(SERVICE_CONFIG, R_OK) == 0 ? SERVICE_CONFIG : NULL;
}

/* Its output goes to `fd`; its messages where ours go. 0, or an error number. */
static int spawn(const char *program, const char *config, int fd, pid_t *ret_pid)
{
    const char *argv[] = {program, "--doctor", config != NULL ? "--config" : NULL, config, NULL};
    posix_spawn_file_actions_t actions;
    int r = posix_spawn_file_actions_init(&actions);

    if (r != 0)
        return r;
    r = posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawnp(ret_pid, program, &actions, NULL, (char *const *) (uintptr_t) argv,
                         environ);
    (void) posix_spawn_file_actions_destroy(&actions); /* cannot fail */
    return r;
}

/* Reads to the end, within EXAM_MS. */
static bool read_all(int fd, struct buf *out)
{
    uint64_t deadline_ms = run_now_ms() + EXAM_MS;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now_ms = run_now_ms();
        char piece[4096];
        ssize_t n;

        if (now_ms >= deadline_ms || poll(&p, 1, (int) (deadline_ms - now_ms)) == 0)
            return false;
        n = read(fd, piece, sizeof(piece));
        if (n < 0 && errno != EINTR)
            return false;
        if (n == 0)
            return !buf_failed(out);
        if (n > 0)
            buf_append(out, piece, (size_t) n);
    }
}

static int examine_here(struct cli *c, struct buf *out)
{
    char program[4096];
    AUTO_CLOSE int near = -1;
    AUTO_CLOSE int far = -1;
    const char *config = config_path(c);
    int fds[2];
    pid_t pid;
    int r;

    find_daemon(program, sizeof(program));
    if (pipe2(fds, O_CLOEXEC) != 0) {
        (void) fprintf(c->err, "sandpool: no pipe: %s\n", strerror(errno));
        return CLI_FAILED;
    }
    near = fds[0];
    far = fds[1];
    r = spawn(program, config, far, &pid);
    if (r != 0) {
        (void) fprintf(c->err, "sandpool: '%s' cannot be run: %s\n", program, strerror(r));
        return CLI_UNREACHABLE;
    }
    (void) fprintf(c->err, "sandpool: '%s --doctor%s%s' examines instead\n", program,
                   config != NULL ? " --config " : "", config != NULL ? config : "");
    (void) close(TAKE_FD(far)); /* so that the child's end is the last one */
    if (!read_all(near, out)) {
        (void) kill(pid, SIGKILL); /* ours, and not yet waited for */
        (void) fprintf(c->err, "sandpool: the checks did not finish in time\n");
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return CLI_OK;
}

/* --- for people --- */

/* Words of `text` in lines of `width`, from the second on indented to `column`. */
static void print_wrapped(FILE *out, const char *text, size_t column, size_t width)
{
    size_t at = column;

    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        char word[512];

        str_copy_cut(word, sizeof(word), text);
        word[MIN_OF(len, sizeof(word) - 1)] = '\0';
        if (at > column && at + 1 + len > width) {
            (void) fprintf(out, "\n%*s", (int) column, "");
            at = column;
        } else if (at > column) {
            (void) fputc(' ', out);
            at++;
        }
        out_text(out, word);
        at += len;
        text += len + strspn(text + len, " ");
    }
    (void) fputc('\n', out);
}

static size_t subject_width(const struct json *findings)
{
    size_t widest = 0;

    for (size_t i = 0; i < json_len(findings); i++)
        widest = MAX_OF(widest, strlen(show_str(json_at(findings, i), "subject")));
    return MIN_OF(widest, (size_t) SUBJECT_MAX);
}

static void print_backend(const struct json *backend, size_t width, FILE *out)
{
    const struct json *findings = json_get(backend, "findings");
    size_t subject = subject_width(findings);

    out_text(out, show_str(backend, "name"));
    (void) fprintf(out, "\n");
    if (json_len(findings) == 0)
        (void) fprintf(out, "%*s%-*s nothing is needed\n", INDENT, "", LEVEL_WIDTH - 1, "ok");
    for (size_t i = 0; i < json_len(findings); i++) {
        const struct json *f = json_at(findings, i);
        const char *level = show_str(f, "level");

        (void) fprintf(out, "%*s%-*s", INDENT, "", LEVEL_WIDTH,
                       strcmp(level, "fail") == 0   ? "FAIL"
                       : strcmp(level, "warn") == 0 ? "warn"
                                                    : "ok");
        out_text(out, show_str(f, "subject"));
        (void) fprintf(out, "%*s",
                       (int) (subject - MIN_OF(subject, strlen(show_str(f, "subject")))) + 2, "");
        print_wrapped(out, show_str(f, "text"), INDENT + LEVEL_WIDTH + subject + 2, width);
    }
}

static int show(struct cli *c, const char *text)
{
    struct json_doc *doc = json_parse(text, strlen(text), ANSWER_MAX, NULL);
    const struct json *root = json_root(doc);
    const struct json *backends = json_get(root, "backends");
    bool is_ok = json_bool(json_get(root, "ok"));
    unsigned cols;
    unsigned rows;

    if (!json_is_arr(backends)) {
        (void) json_doc_free(doc);
        (void) fprintf(c->err, "sandpool: malformed response; compare the versions with "
                               "'sandpool version'\n");
        return CLI_FAILED;
    }
    run_terminal_size(&cols, &rows);
    if (cli_wants_json(c))
        (void) fprintf(c->out, "%s%s", text, text[MAX_OF(strlen(text), 1) - 1] == '\n' ? "" : "\n");
    for (size_t i = 0; i < json_len(backends) && !cli_wants_json(c); i++)
        print_backend(json_at(backends, i), MAX_OF(cols, 60U), c->out);
    (void) json_doc_free(doc);
    return is_ok ? CLI_OK : CLI_FAILED;
}

int cmd_doctor(struct cli *c)
{
    AUTO_FREE char *answer = NULL;
    struct sp_failure f;
    struct buf text;
    int code;

    sp_client_set_timeout(c->client, EXAM_MS);
    if (sp_call(c->client, "GET", "/v1/doctor", NULL, &answer, &f) == SP_OK)
        return show(c, answer);
    if (f.code != SP_CONNECT_FAILED)
        return cli_fail(c, &f);
    (void) fprintf(c->err, "sandpool: %s\n", f.message); /* also with --json: an answer follows */
    buf_init(&text, ANSWER_MAX);
    code = examine_here(c, &text);
    if (code == CLI_OK)
        code = show(c, buf_str(&text));
    buf_fini(&text);
    return code;
}
