/* cli.h - the `sandpool` program: a table of commands, each with its options and its examples. The
 * table parses arguments, prints help and writes the completions. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "base/json.h"
#include "sandpool/client.h"

/* What a script can rely on; listed in --help. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,      /* the call failed */
    CLI_USAGE = 2,       /* wrong arguments; nothing was done */
    CLI_UNREACHABLE = 3, /* no daemon, or it does not answer */
    CLI_NOT_FOUND = 4,   /* no such sandbox, or it is lost */
    CLI_BUSY = 5,        /* try again later (429, 503) */
    /* of `run`, whose other codes are its command's; as env(1) and timeout(1) do it */
    CLI_RUN_TIMEOUT = 124,
    CLI_RUN_FAILED = 125, /* sandpool's own trouble, wrong arguments too */
    CLI_RUN_CANNOT = 126, /* the command was found and cannot be run */
    CLI_RUN_UNKNOWN = 127,
};

enum cli_kind {
    CLI_FLAG,
    CLI_TEXT,
    CLI_LIST, /* a text that may be given several times */
    CLI_NUMBER,
    CLI_DURATION, /* "500ms", "30s", "5m", "2h", "1d"; a bare number is seconds */
    CLI_KIND_COUNT
};

struct cli_option {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* 0: none */
    enum cli_kind kind;
    const char *value; /* how the value is called in help; NULL for a flag */
    const char *help;
    const char *choices; /* separated by spaces; NULL: anything */
};

struct cli;

struct cli_command {
    const char *name;
    const char *operands;                /* "ID", "[THREAD]", "" */
    unsigned operands_min, operands_max; /* max CLI_REST: see there */
    const char *choices; /* of the operand, separated by spaces; "ID": the sandboxes there are */
    const char *summary;
    const char *help; /* more sentences; may be NULL */
    const struct cli_option *options;
    const char *examples; /* lines of "command  # what it does" */
    int (*run)(struct cli *c);
};

enum { CLI_OPTIONS_MAX = 24, CLI_OPERANDS_MAX = 64, CLI_LIST_MAX = 256 };
/* The last of the operands that must be there ends the options: it and all that follows are in `rest`. */
#define CLI_REST (~0U)

struct cli_args {
    const struct cli_command *command;
    const char *values[CLI_OPTIONS_MAX]; /* of the command's options; NULL: not given */
    const char *common[CLI_OPTIONS_MAX]; /* of cli_common */
    const char *operands[CLI_OPERANDS_MAX];
    unsigned operand_count;
    const char *const *rest; /* with CLI_REST; ends with NULL when argv does */
    unsigned rest_count;
    struct cli_item {
        const struct cli_option *option;
        const char *value;
    } list[CLI_LIST_MAX]; /* values of every CLI_LIST, in the order given */
    unsigned list_count;
};

struct cli {
    FILE *out;
    FILE *err;
    struct cli_args args;
    struct sp_client *client;
};

/* --- commands.c --- */

extern const struct cli_command cli_commands[]; /* ends with a name of NULL */
extern const struct cli_option cli_common[];
const struct cli_command *cli_find_command(const char *name);
/* The other names of commands; NULL behind the last. */
const char *cli_alias(size_t i);

/* --- cli.c: the whole program, apart from the process --- */

int cli_main(int argc, const char *const *argv, FILE *out, FILE *err);

/* --- args.c --- */

/* False with the reason in `err`. An early --help or --version wins over everything wrong. */
MUST_CHECK bool cli_parse(int argc, const char *const *argv, struct cli_args *ret, struct err *err);
/* NULL when it was not given; "" for a flag that was. The option must exist. */
const char *cli_option(const struct cli_args *a, const char *name);
bool cli_flag(const struct cli_args *a, const char *name);
/* The n-th value of a CLI_LIST, from 0; NULL after the last. */
const char *cli_list(const struct cli_args *a, const char *name, unsigned n);
/* *ret is left alone when it was not given. The parser has checked the form. */
bool cli_number(const struct cli_args *a, const char *name, uint64_t *ret);
bool cli_duration_ms(const struct cli_args *a, const char *name, uint64_t *ret);

/* --- duration.c --- */

MUST_CHECK bool duration_parse_ms(const char *s, uint64_t *ret);
/* "12s", "3m", "2h", "5d"; dst has room for 24. */
void duration_print(double seconds, char *dst);

/* --- help.c, completion.c --- */

struct cli_exit_text {
    const char *code;
    const char *text;
};
extern const struct cli_exit_text cli_exits[];     /* ends with a code of NULL */
extern const struct cli_exit_text cli_run_exits[]; /* of commands that run one in a box */
extern const char cli_times_text[];                /* how times are written */
extern const char cli_id_text[];                   /* what ID means */
/* Appends "sandpool acquire [THREAD] [OPTION]...". */
void cli_add_usage(const struct cli_command *command, struct buf *out);
bool cli_takes_id(const struct cli_command *command);

void cli_print_help(FILE *out);
void cli_print_command_help(const struct cli_command *command, FILE *out);
/* False when the shell is unknown. */
bool cli_print_completion(const char *shell, FILE *out);

enum { CLI_ID_MAX = 80 };

/* cmd_pause.c: "/pause", "/resume" or "/drain" of the pool, or of the profile of --profile. `text` is printed for the
 * pool. */
MUST_CHECK int cli_set_mode(struct cli *c, const char *suffix, const char *text);

/* --- call.c: talking to the daemon. A failure is printed --- */

/* An exit code. On CLI_OK *ret (may be NULL) is the parsed answer, to be freed; with --json it has
 * been printed as it came. */
MUST_CHECK int cli_call(struct cli *c, const char *method, const char *target, const char *body,
                        struct json_doc **ret);
/* The same without a body, and nothing is printed. */
MUST_CHECK int cli_fetch(struct cli *c, const char *method, const char *target,
                         struct json_doc **ret);
/* Nothing is printed, neither is a failure. A code of the call. */
MUST_CHECK int cli_try(struct cli *c, const char *method, const char *target, const char *body,
                       struct json_doc **ret, struct sp_failure *failure);
/* Appends a part of a path or query: all but letters, digits and "-_.:" escaped. */
void cli_escape(struct buf *out, const char *text);
/* Appends "&name=value" when the option was given. */
void cli_add_filter(const struct cli *c, struct buf *target, const char *option, const char *name);
/* The same of --id, which may be USER/THREAD. */
void cli_add_sandbox(const struct cli *c, struct buf *target, const char *name);
/* A call about the sandbox that the operand names: by its id, or by its thread (of --user, which must be an
 * option of the command). */
struct cli_sandbox_call {
    const char *name; /* NULL: the first operand */
    const char *method;
    const char *suffix; /* of the path, with the query: "/renew", "?alive=1", "" */
    const char *body;   /* NULL: none */
};
MUST_CHECK int cli_call_sandbox(struct cli *c, const struct cli_sandbox_call *call,
                                struct json_doc **ret);
/* The sandbox_id of the box that `name` names (a sandbox_id, a thread, USER/THREAD), for further calls. */
MUST_CHECK int cli_resolve(struct cli *c, const char *name, char ret[CLI_ID_MAX]);

/* --- fail.c: a failure as a sentence on c->err; with --json as an object on c->out, or on c->err when c->out is the
 * output of a command in a box --- */

/* What went wrong, and as it is. */
void cli_say(const struct cli *c, const struct sp_failure *f);
/* These two add what to do, and return what to exit with. */
int cli_fail(struct cli *c, const struct sp_failure *f);
int cli_fail_usage(struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The first operand is none of the command's `choices`. */
int cli_fail_choice(struct cli *c);
int cli_exit_code(const struct sp_failure *f);
bool cli_wants_json(const struct cli *c);

/* --- suggest.c: "did you mean" --- */

/* Appends a sentence about a command, or an option of `command` (NULL: of all), that does not exist. */
void suggest_command(const char *name, struct buf *out);
void suggest_option(const struct cli_command *command, const char *arg, struct buf *out);
void suggest_choice(const struct cli_command *command, const char *word, struct buf *out);

/* --- out.c: tables for people --- */

struct out_table {
    unsigned columns;
    size_t count;
    size_t cap;
    char **cells;
};

/* `head`: the names of the columns; they are the first row. */
void out_table_init(struct out_table *t, const char *const *head, unsigned columns);
/* NULL or "": a dash. Control characters are replaced, so that a name cannot move the cursor. */
void out_cell(struct out_table *t, const char *text);
void out_cell_u64(struct out_table *t, uint64_t v);
void out_table_print(const struct out_table *t, FILE *out);
void out_table_fini(struct out_table *t);
/* One "name  value" line. */
void out_pair(FILE *out, const char *name, const char *value);
void out_text(FILE *out, const char *text);

/* --- progress.c: with --verbose, or on a terminal, says on stderr what an acquire waits for --- */

/* Stop takes what start returned. Of the request only its names matter. */
/* By which the progress of an anonymous acquire is found; NULL: it has another name, or none is shown. */
const char *cli_progress_name(const struct cli *c, const char *thread, const char *id);
int cli_progress_start(const struct cli *c, const struct sp_acquire *request);
void cli_progress_stop(const struct cli *c, int progress);

/* --- show.c: members of answers --- */

/* "" when it is absent or null. */
const char *show_str(const struct json *obj, const char *key);
uint64_t show_u64(const struct json *obj, const char *key);
/* A number of seconds as "3m", "" when absent; dst has room for 24. */
const char *show_age(const struct json *obj, const char *key, char *dst);
/* When and why time ends a box: "9m (idle)"; "" when nothing does. dst has room for SHOW_END_MAX. */
enum { SHOW_END_MAX = 64 };
const char *show_end(const struct json *box, char *dst);
/* What to call a box: its sandbox_id, or "box:" and its own id. dst has room for 96. */
const char *show_id(const struct json *box, char *dst);
/* Every member that has a value, one line each. */
void show_members(const struct json *obj, FILE *out);
/* show_report.c: the answer to an end of a sandbox. */
void show_ended(const struct json *answer, const char *name, FILE *out);

/* --- sse.c: server-sent events --- */

struct sse {
    struct buf line;
    struct buf data;
    char id[24];
    char event[64];
    bool (*on_event)(struct sse *s); /* false: enough */
};

void sse_init(struct sse *s, bool (*on_event)(struct sse *s));
void sse_fini(struct sse *s);
/* Forgets a half event, for a new connection; the last id stays. */
void sse_restart(struct sse *s);
/* False when on_event said so, or a line was too long. */
bool sse_feed(struct sse *s, const char *data, size_t len);

/* --- one file per command --- */

int cmd_acquire(struct cli *c);
int cmd_backup(struct cli *c);
int cmd_release(struct cli *c);
int cmd_run(struct cli *c);
int cmd_network(struct cli *c);
int cmd_renew(struct cli *c);
int cmd_get(struct cli *c);
int cmd_ls(struct cli *c);
int cmd_destroy(struct cli *c);
int cmd_pool(struct cli *c);
int cmd_events(struct cli *c);
int cmd_pause(struct cli *c);
int cmd_resume(struct cli *c);
int cmd_drain(struct cli *c);
int cmd_reconcile(struct cli *c);
int cmd_reload(struct cli *c);
int cmd_doctor(struct cli *c);
int cmd_version(struct cli *c);
int cmd_why(struct cli *c);
int cmd_completion(struct cli *c);
int cmd_cp(struct cli *c);
int cmd_exec(struct cli *c);
int cmd_jobs(struct cli *c);
int cmd_kill(struct cli *c);
int cmd_logs(struct cli *c);
int cmd_port_forward(struct cli *c);
int cmd_profile(struct cli *c);
int cmd_quote(struct cli *c);
int cmd_usage(struct cli *c);
int cmd_budget(struct cli *c);
int cmd_token(struct cli *c);
int cmd_shell(struct cli *c);
int cmd_snapshot(struct cli *c);
int cmd_top(struct cli *c);
int cmd_fork(struct cli *c);
int cmd_help(struct cli *c);

#endif
