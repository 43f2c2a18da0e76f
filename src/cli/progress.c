/* progress.c - while an acquire waits: what for and how long, on stderr, by a process that asks on a connection of its own.
 * It says something when the wait is longer than a moment: on a terminal in one line that is written again every second
 * and is gone at the end, elsewhere in a line for each change. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/run.h"

enum { ASK_MS = 1000, ANSWER_MAX = 64 * 1024, TIMEOUT_MS = 5000, TEXT_MAX = 512 };
#define CLEAR_LINE "\r\033[K"

static uint64_t started_ms;

static void put_query(const struct sp_acquire *request, struct buf *target)
{
    const char *const names[][2] = {{"thread_id", request->thread_id},
                                    {"user_id", request->user_id},
                                    {"sandbox_id", request->sandbox_id},
                                    {"request_id", request->request_id},
                                    {"profile", request->profile}};
    char separator = '?';

    buf_puts(target, "/v1/waiting");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (names[i][1] == NULL)
            continue;
        buf_printf(target, "%c%s=", separator, names[i][0]);
        cli_escape(target, names[i][1]);
        separator = '&';
    }
}

static void describe(const struct json *answer, char *dst, size_t cap)
{
    unsigned long long place = show_u64(answer, "place");
    unsigned long long held = show_u64(answer, "held");
    const char *reason = show_str(answer, "reason");
    char yours[48] = "";

    if (held > 0)
        (void) snprintf(yours, sizeof(yours), "; %llu boxes are yours", held);
    if (place > 0)
        (void) snprintf(dst, cap, "place %llu of %llu, %.300s%s", place,
                        (unsigned long long) show_u64(answer, "of"), reason, yours);
    else
        (void) snprintf(dst, cap, "%.300s%s", reason, yours);
}

static bool is_terminal(const struct cli *c)
{
    return c->err == stderr && isatty(STDERR_FILENO) != 0;
}

/* As much as one line of the terminal takes: more could not be written again. */
static void show_line(const struct cli *c, const char *text)
{
    char line[TEXT_MAX + 64];
    unsigned cols;
    unsigned rows;

    run_terminal_size(&cols, &rows);
    (void) snprintf(line, sizeof(line), "sandpool: waiting %llu s: %s",
                    (unsigned long long) ((run_now_ms() - started_ms) / 1000), text);
    if (strlen(line) >= cols)
        line[cols - 1] = '\0';
    (void) fputs(CLEAR_LINE, c->err);
    out_text(c->err, line);
}

static void show_change(const struct cli *c, const char *text)
{
    (void) fputs("sandpool: waiting: ", c->err);
    out_text(c->err, text);
    (void) fputc('\n', c->err);
}

NORETURN static void report(const struct cli *c, const char *target)
{
    struct timespec pause = {.tv_sec = ASK_MS / 1000};
    struct sp_client *client = sp_client_new(cli_option(&c->args, "socket"));
    char last[TEXT_MAX] = "";

    for (;;) {
        AUTO_FREE char *text = NULL;
        struct json_doc *doc;
        struct sp_failure f;
        char now[TEXT_MAX];

        (void) nanosleep(&pause, NULL);
        sp_client_set_timeout(client, TIMEOUT_MS);
        if (sp_call(client, "GET", target, NULL, &text, &f) != SP_OK)
            _exit(0); /* an older daemon, or none: its answer to the acquire says what is wrong */
        doc = json_parse(text, strlen(text), ANSWER_MAX, NULL);
        describe(json_root(doc), now, sizeof(now));
        (void) json_doc_free(doc);
        if (is_terminal(c))
            show_line(c, now);
        else if (strcmp(now, last) != 0)
            show_change(c, now);
        (void) fflush(c->err);
        str_copy_cut(last, sizeof(last), now);
    }
}

static bool is_wanted(const struct cli *c)
{
    return cli_flag(&c->args, "verbose") || is_terminal(c);
}

const char *cli_progress_name(const struct cli *c, const char *thread, const char *id)
{
    static char name[64];
    struct timespec now = {0};

    if (thread != NULL || id != NULL || !is_wanted(c))
        return NULL;
    (void) clock_gettime(CLOCK_REALTIME, &now);
    (void) snprintf(name, sizeof(name), "cli-%ld-%lld-%09ld", (long) getpid(),
                    (long long) now.tv_sec, now.tv_nsec);
    return name;
}

int cli_progress_start(const struct cli *c, const struct sp_acquire *request)
{
    struct buf target;
    pid_t parent = getpid();
    pid_t pid;

    if (!is_wanted(c))
        return 0;
    started_ms = run_now_ms();
    buf_init(&target, 4096);
    put_query(request, &target);
    (void) fflush(c->err);
    pid = buf_failed(&target) ? -1 : fork();
    if (pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* cannot fail */
        if (getppid() != parent)
            _exit(0);
        report(c, buf_str(&target));
    }
    buf_fini(&target);
    return pid > 0 ? (int) pid : 0; /* without it nothing is said */
}

void cli_progress_stop(const struct cli *c, int pid)
{
    if (pid == 0)
        return;
    (void) kill(pid, SIGKILL); /* our child, not yet waited for */
    (void) waitpid(pid, NULL, 0);
    if (is_terminal(c) && run_now_ms() - started_ms >= ASK_MS) {
        (void) fputs(CLEAR_LINE, c->err);
        (void) fflush(c->err);
    }
}
