/* cmd_exec.c - sandpool exec and shell: a command in a box that somebody has acquired, through the daemon. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"

enum { REQUEST_MAX = 8 * 1024 * 1024 };

/* The job goes on by itself; its number is what 'logs' and 'kill' need. */
static int detach(struct cli *c, const char *id, const struct run_command *command)
{
    struct json_doc *doc;
    struct buf body;
    char target[128];
    int code;

    buf_init(&body, REQUEST_MAX);
    run_encode(command, false, &body);
    (void) snprintf(target, sizeof(target), "/v1/sandboxes/%s/jobs", id);
    code = cli_call(c, "POST", target, buf_str(&body), &doc);
    buf_fini(&body);
    if (code != CLI_OK)
        return code == CLI_USAGE ? CLI_RUN_FAILED : code;
    if (!cli_wants_json(c)) {
        out_text(c->out, show_str(json_root(doc), "job"));
        (void) fputc('\n', c->out);
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}

static int run(struct cli *c, const char *id, struct run_command *command)
{
    struct run_place place = {.client = c->client, .sandbox_id = id};
    struct run_result result;

    (void) signal(SIGPIPE, SIG_IGN); /* cannot fail for a valid number */
    command->cli = c;
    command->is_kept = true;
    command->signal_fd = run_signals_open(c);
    if (command->signal_fd < 0)
        return CLI_RUN_FAILED;
    run_in_box(&place, command, &result);
    (void) close(command->signal_fd);
    return result.status;
}

/* Of an operand that cannot be resolved; the codes of the command's own range are taken. */
static int fail_code(int code)
{
    return code == CLI_OK ? CLI_OK : CLI_RUN_FAILED;
}

/* In the box; NULL: the box's choice. */
static const char *user_of(const struct cli_args *a)
{
    const char *as = cli_option(a, "as");

    return as != NULL ? as : cli_option(a, "user");
}

int cmd_exec(struct cli *c)
{
    const struct cli_args *a = &c->args;
    struct run_command command = {.argv = a->rest,
                                  .argc = a->rest_count,
                                  .args = a,
                                  .cwd = cli_option(a, "cwd"),
                                  .user = user_of(a),
                                  .want_tty = cli_flag(a, "tty"),
                                  .want_stdin = cli_flag(a, "interactive")};
    char id[CLI_ID_MAX];
    uint64_t timeout_ms = 0;
    int code;

    if (!run_check_env(c))
        return CLI_RUN_FAILED;
    if (cli_duration_ms(a, "timeout", &timeout_ms))
        command.timeout_ms = MAX_OF(timeout_ms, 1U);
    code = cli_resolve(c, a->operands[0], id);
    if (code != CLI_OK)
        return fail_code(code);
    if (cli_flag(a, "detach"))
        return fail_code(detach(c, id, &command));
    return run(c, id, &command);
}

int cmd_shell(struct cli *c)
{
    /* bash where the box has it; as a login, so that the profile's settings hold. */
    static const char *const argv[] = {
        "/bin/sh", "-c", "if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi"};
    const struct cli_args *a = &c->args;
    struct run_command command = {.argv = argv,
                                  .argc = ARRAY_LEN(argv),
                                  .args = a,
                                  .cwd = cli_option(a, "cwd"),
                                  .user = user_of(a),
                                  .want_tty = true,
                                  .want_stdin = true};
    char id[CLI_ID_MAX];
    int code;

    if (!run_check_env(c))
        return CLI_RUN_FAILED;
    code = cli_resolve(c, a->operands[0], id);
    return code != CLI_OK ? fail_code(code) : run(c, id, &command);
}
