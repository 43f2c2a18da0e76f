/* fail.c - what a command says when it fails: one sentence with the cause and what to do, in the words of
 * the command line; with --json the same as an object, so that a program never has to parse sentences. */
#include <stdarg.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

/* What the daemon's sentence leaves open. */
static const struct {
    int code;
    const char *text;
} hints[] = {
    {SP_NOT_FOUND, "'sandpool ls' shows what there is"},
    {SP_STALE_GENERATION, "'sandpool get' shows the generation it has now"},
    {SP_POOL_EXHAUSTED, "release one ('sandpool ls' shows them) or raise pool.max_boxes"},
    {SP_ACQUIRE_TIMEOUT, "'sandpool pool' shows the reason"},
    {SP_BACKEND_UNAVAILABLE, "'sandpool pool' and 'sandpool doctor' say more"},
    {SP_DRAINING, "'sandpool resume' ends that"},
    {SP_PAUSED, "'sandpool resume' ends that"},
    {SP_TIMEOUT, "--request-timeout waits longer"},
    {SP_NO_ROUTE, "the daemon may have another version, see 'sandpool version'"},
};

/* Fields of requests, as the daemon names them, and the options they come from. */
static const struct {
    const char *field;
    const char *option;
} options[] = {
    {"'wait_ms'", "--wait (in milliseconds)"},
    {"'ttl_s'", "--ttl (in seconds)"},
    {"'idle_timeout_s'", "--idle (in seconds)"},
    {"'user_id'", "--user"},
    {"'thread_id'", "the thread"},
    {"'sandbox_id'", "--id"},
    {"'profile'", "--profile"},
    {"'state'", "--state"},
    {"'generation'", "--generation"},
    {"'metadata'", "--metadata"},
    {"'envs'", "--env"},
    {"'mounts'", "--mount"},
    {"'limits': 'memory'", "--memory"},
    {"'limits': 'cpus'", "--cpus"},
    {"'limits': 'pids'", "--pids"},
    {"'group_by'", "--by"},
};

int cli_exit_code(const struct sp_failure *f)
{
    if (f->code == SP_CONNECT_FAILED || (f->code == SP_TIMEOUT && f->http_status == 0))
        return CLI_UNREACHABLE;
    if (f->code == SP_NOT_FOUND || f->code == SP_SANDBOX_LOST)
        return CLI_NOT_FOUND;
    if (f->http_status == 429 || f->http_status == 503)
        return CLI_BUSY;
    return CLI_FAILED;
}

bool cli_wants_json(const struct cli *c)
{
    return cli_flag(&c->args, "json");
}

/* The daemon's sentence with the names of options. */
static void translate(const char *message, struct buf *out)
{
    while (*message != '\0') {
        size_t i = 0;

        while (i < ARRAY_LEN(options) &&
               strncmp(message, options[i].field, strlen(options[i].field)) != 0)
            i++;
        if (i < ARRAY_LEN(options)) {
            buf_puts(out, options[i].option);
            message += strlen(options[i].field);
        } else {
            buf_putc(out, *message);
            message++;
        }
    }
}

/* Standard output is a command's in a box. */
static bool is_output_taken(const struct cli_command *command)
{
    return command != NULL && (command->operands_max == CLI_REST || command->run == cmd_shell ||
                               command->run == cmd_logs);
}

/* `retry_after_ms`: 0 for none. */
static void print_failure(const struct cli *c, int code, const char *message,
                          uint64_t retry_after_ms)
{
    FILE *to = is_output_taken(c->args.command) ? c->err : c->out;
    struct json_out o;
    struct buf text;

    if (!cli_wants_json(c)) {
        (void) fprintf(c->err, "sandpool: ");
        out_text(c->err, message);
        (void) fputc('\n', c->err);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_obj(&o, "error");
    json_put_str(&o, "code", sp_error_info(code)->name);
    json_put_str(&o, "message", message);
    if (retry_after_ms > 0)
        json_put_u64(&o, "retry_after_ms", retry_after_ms);
    json_end(&o);
    json_end(&o);
    buf_init(&text, 64 * 1024);
    json_out_finish(&o, &text);
    (void) fprintf(to, "%s\n", buf_str(&text));
    buf_fini(&text);
}

void cli_say(const struct cli *c, const struct sp_failure *f)
{
    print_failure(c, f->code, f->message, f->retry_after_ms);
}

static bool is_of_profile(const struct sp_failure *f)
{
    return strstr(f->message, "there is no profile") != NULL ||
           strstr(f->message, "there is no such profile") != NULL;
}

int cli_fail(struct cli *c, const struct sp_failure *f)
{
    struct buf text;

    buf_init(&text, 16 * 1024);
    if (f->code == SP_INVALID_FIELD)
        translate(f->message, &text);
    else
        buf_puts(&text, f->message);
    if (strcmp(f->message, "no such job") == 0) {
        buf_puts(&text, "; 'sandpool jobs ID' lists them");
    } else if (is_of_profile(f)) {
        buf_puts(&text, "; 'sandpool profile ls' lists them");
    } else if (strncmp(f->message, "no such snapshot", strlen("no such snapshot")) == 0) {
        buf_puts(&text, "; 'sandpool snapshot ls' lists them");
    } else {
        for (size_t i = 0; i < ARRAY_LEN(hints); i++) {
            if (hints[i].code == f->code)
                buf_printf(&text, "; %s", hints[i].text);
        }
    }
    if (f->retry_after_ms > 0 && !cli_wants_json(c))
        buf_printf(&text, "; try again in %.1f s", (double) f->retry_after_ms / 1000);
    print_failure(c, f->code, buf_str(&text), f->retry_after_ms);
    buf_fini(&text);
    return cli_exit_code(f);
}

int cli_fail_usage(struct cli *c, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, ap); /* what is longer is cut */
    va_end(ap);
    print_failure(c, SP_BAD_REQUEST, text, 0);
    return CLI_USAGE;
}

int cli_fail_choice(struct cli *c)
{
    const struct cli_command *command = c->args.command;
    struct buf text;
    int code;

    buf_init(&text, 1024);
    buf_printf(&text, "there is no '%s %.40s'", command->name, c->args.operands[0]);
    suggest_choice(command, c->args.operands[0], &text);
    code =
        cli_fail_usage(c, "%s (sandpool %s %s)", buf_str(&text), command->name, command->operands);
    buf_fini(&text);
    return code;
}
