/* cmd_top.c - sandpool top: the pool as it is now, again and again; or once, for scripts. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"
#include "cli/top.h"

enum {
    INTERVAL_MS = 1000,
    INTERVAL_MIN_MS = 100,
    INTERVAL_MAX_MS = 3600 * 1000,
    ONCE_COLS = 132,
    ONCE_BOXES = 200, /* are asked what they use */
    OUTPUT_MAX = 64 * 1024 * 1024,
};

struct session {
    struct cli *cli;
    struct top top;
    struct top_view view;
    struct top_asker asker;
    uint64_t interval_ms;
    bool is_over;
    int code;
};

/* --- once --- */

static void print_json(const struct session *s)
{
    struct json_out o;
    struct buf text;

    json_out_init(&o);
    top_put_json(&s->top, &o);
    buf_init(&text, OUTPUT_MAX);
    json_out_finish(&o, &text);
    (void) fprintf(s->cli->out, "%s\n", buf_str(&text));
    buf_fini(&text);
}

static void print_picture(struct session *s)
{
    struct top_grid g;
    unsigned cols = ONCE_COLS;
    unsigned rows;

    if (isatty(STDOUT_FILENO) == 1)
        run_terminal_size(&cols, &rows);
    top_draw_all(&s->top, &s->view, cols, &g);
    top_grid_print(&g, s->cli->out);
    top_grid_fini(&g);
}

/* A rate needs two looks. */
static int run_once(struct session *s)
{
    struct sp_failure f = {.code = SP_PROTOCOL};
    struct json_doc *doc;
    int code = cli_fetch(s->cli, "GET", "/v1/pool", &doc); /* says what is wrong */

    if (code != CLI_OK)
        return code;
    (void) json_doc_free(doc);
    for (unsigned i = 0; i < 2; i++) {
        if (i == 1)
            (void) poll(NULL, 0, (int) s->interval_ms);
        s->asker.boxes_due_ms = 0;
        if (!top_ask_all(&s->asker, &s->top)) {
            str_copy_cut(f.message, sizeof(f.message), s->top.away);
            return cli_fail(s->cli, &f);
        }
        top_view_update(&s->view, &s->top);
        top_ask_use(&s->asker, &s->top, &s->view, ONCE_BOXES);
    }
    top_view_update(&s->view, &s->top);
    if (cli_wants_json(s->cli))
        print_json(s);
    else
        print_picture(s);
    return CLI_OK;
}

/* --- live --- */

static volatile sig_atomic_t ended_by;

static void on_signal(int signum)
{
    ended_by = signum;
}

/* ncurses would end the program. */
static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};

    ended_by = 0;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        (void) sigaction(signals[i], &action, NULL); /* cannot fail for these */
}

static void draw(struct session *s)
{
    struct top_grid g;
    unsigned cols;
    unsigned rows;

    top_screen_size(&cols, &rows);
    top_grid_init(&g, cols, rows);
    top_draw(&s->top, &s->view, &g);
    top_screen_show(&g);
    top_grid_fini(&g);
}

static void refresh_all(struct session *s)
{
    (void) top_ask_all(&s->asker, &s->top); /* why not is on the screen */
    top_view_update(&s->view, &s->top);
    if (s->view.mode == TOP_DETAILS)
        top_ask_details(&s->asker, &s->view);
    draw(s);
    if (s->view.mode != TOP_DETAILS) {
        top_ask_use(&s->asker, &s->top, &s->view, s->view.page);
        top_view_update(&s->view, &s->top);
        draw(s);
    }
}

static void wait_for_enter(void)
{
    char c;

    (void) fputs("Press Enter to go back to 'sandpool top'.\n", stderr);
    while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n' && c != '\r')
        continue;
}

/* As 'sandpool shell' would be called, with our terminal; it blocks signals for good. */
static void open_shell(struct session *s)
{
    const char *const argv[] = {"sandpool", "--socket", sp_client_socket(s->cli->client),
                                "shell",    "--",       s->view.target,
                                NULL};
    sigset_t before;
    int code;

    top_screen_leave();
    (void) sigprocmask(SIG_BLOCK, NULL, &before); /* these cannot fail */
    code = cli_main((int) ARRAY_LEN(argv) - 1, argv, s->cli->out, s->cli->err);
    (void) sigprocmask(SIG_SETMASK, &before, NULL);
    if (code == CLI_RUN_FAILED)
        wait_for_enter();
    top_screen_return();
}

static void act(struct session *s, enum top_action action)
{
    switch (action) {
    case TOP_QUIT:
        s->is_over = true;
        break;
    case TOP_SHELL:
        open_shell(s);
        break;
    case TOP_INSPECT:
        top_ask_details(&s->asker, &s->view);
        break;
    case TOP_DESTROY:
    case TOP_PAUSE:
    case TOP_RESUME:
        top_ask_action(&s->asker, &s->view, action);
        (void) top_ask_all(&s->asker, &s->top); /* why not is on the screen */
        top_view_update(&s->view, &s->top);
        break;
    case TOP_REFRESH:
        s->asker.boxes_due_ms = 0;
        refresh_all(s);
        break;
    case TOP_NOTHING:
        break;
    }
}

static void take_keys(struct session *s)
{
    unsigned key = 1;

    while (!s->is_over && ended_by == 0 && key != 0) {
        if (!top_screen_key(&key)) {
            s->is_over = true;
            s->code = CLI_FAILED;
        } else if (key != 0) {
            act(s, top_view_key(&s->view, &s->top, key));
        }
    }
}

static void loop(struct session *s)
{
    uint64_t due_ms = 0;

    while (!s->is_over && ended_by == 0) {
        uint64_t now_ms = run_now_ms();
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

        if (now_ms >= due_ms) {
            refresh_all(s);
            due_ms = run_now_ms() + s->interval_ms;
            continue;
        }
        if (poll(&p, 1, (int) (due_ms - now_ms)) < 0 && errno != EINTR)
            s->is_over = true;
        take_keys(s); /* also after a signal: the window may have changed */
        if (!s->is_over && ended_by == 0)
            draw(s);
    }
}

static int run_live(struct session *s)
{
    struct sp_failure f = {.code = SP_IO};
    struct err err;

    catch_signals();
    if (!top_screen_open(&err)) {
        str_copy_cut(f.message, sizeof(f.message), err.msg);
        cli_say(s->cli, &f);
        return CLI_FAILED;
    }
    s->asker.interrupt_fd = STDIN_FILENO;
    loop(s);
    top_screen_close();
    return ended_by != 0 ? 128 + (int) ended_by : s->code;
}

int cmd_top(struct cli *c)
{
    struct session s = {.cli = c,
                        .interval_ms = INTERVAL_MS,
                        .asker = {.cli = c, .interrupt_fd = -1},
                        .code = CLI_OK};
    bool has_terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    int code;

    if (cli_duration_ms(&c->args, "interval", &s.interval_ms) &&
        (s.interval_ms < INTERVAL_MIN_MS || s.interval_ms > INTERVAL_MAX_MS))
        return cli_fail_usage(c, "--interval must be from 100ms to 1h");
    top_init(&s.top);
    top_view_init(&s.view);
    if (cli_flag(&c->args, "once") || cli_wants_json(c) || !has_terminal)
        code = run_once(&s);
    else
        code = run_live(&s);
    top_view_fini(&s.view);
    top_fini(&s.top);
    return code;
}
