/* cmd_jobs.c - sandpool jobs, logs and kill: what runs in a box and has run there. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"

static const char *const head[] = {"JOB", "OUTCOME", "EXIT", "TIME", "STDOUT", "STDERR", "COMMAND"};

/* The outcome, and what stands beside it: an exit code or the name of a signal. */
static const char *exit_text(const struct json *job, char dst[32])
{
    uint64_t code;

    dst[0] = '\0';
    if (json_u64(json_get(job, "exit_code"), &code))
        (void) snprintf(dst, 32, "%llu", (unsigned long long) code);
    else
        str_copy_cut(dst, 32, show_str(job, "signal"));
    return dst;
}

static void add_row(struct out_table *t, const struct json *job)
{
    char text[32];

    out_cell(t, show_str(job, "job"));
    out_cell(t, show_str(job, "outcome"));
    out_cell(t, exit_text(job, text));
    duration_print((double) show_u64(job, "duration_ms") / 1000, text);
    out_cell(t, text);
    out_cell_u64(t, show_u64(job, "stdout_bytes"));
    out_cell_u64(t, show_u64(job, "stderr_bytes"));
    out_cell(t, show_str(job, "command"));
}

static void jobs_target(const char *id, const char *rest, char *dst, size_t cap)
{
    (void) snprintf(dst, cap, "/v1/sandboxes/%s/jobs%s", id, rest);
}

/* A job is a number: anything else would change the path. */
static bool check_job(struct cli *c, const char *job, int *ret_code)
{
    uint64_t number;

    if (str_parse_u64(job, 1, UINT64_MAX, &number))
        return true;
    *ret_code = cli_fail_usage(c, "'%.40s' is no job: 'sandpool jobs ID' lists their numbers", job);
    return false;
}

int cmd_jobs(struct cli *c)
{
    char id[CLI_ID_MAX];
    char target[128];
    struct json_doc *doc;
    struct out_table table;
    int code = cli_resolve(c, c->args.operands[0], id);

    if (code != CLI_OK)
        return code;
    jobs_target(id, "", target, sizeof(target));
    code = cli_call(c, "GET", target, NULL, &doc);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        const struct json *jobs = json_get(json_root(doc), "jobs");

        out_table_init(&table, head, ARRAY_LEN(head));
        for (size_t i = 0; i < json_len(jobs); i++)
            add_row(&table, json_at(jobs, i));
        out_table_print(&table, c->out);
        out_table_fini(&table);
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}

int cmd_kill(struct cli *c)
{
    const char *signal_name = cli_option(&c->args, "signal");
    const char *job = c->args.operands[1];
    char id[CLI_ID_MAX];
    char target[192];
    char rest[64];
    char text[32];
    struct json_doc *doc;
    int code = CLI_OK;

    if (!check_job(c, job, &code))
        return code;
    code = cli_resolve(c, c->args.operands[0], id);
    if (code != CLI_OK)
        return code;
    (void) snprintf(rest, sizeof(rest), "/%s%s", job, signal_name != NULL ? "/signal" : "");
    jobs_target(id, rest, target, sizeof(target));
    if (signal_name != NULL) {
        struct json_out o;
        struct buf body;

        buf_init(&body, 4096);
        json_out_init(&o);
        json_begin_obj(&o, NULL);
        json_put_str(&o, "signal", signal_name);
        json_end(&o);
        json_out_finish(&o, &body);
        code = cli_call(c, "POST", target, buf_str(&body), &doc);
        buf_fini(&body);
    } else {
        code = cli_call(c, "DELETE", target, NULL, &doc);
    }
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c) && signal_name == NULL) {
        out_text(c->out, show_str(json_root(doc), "outcome"));
        (void) fprintf(c->out, " %s\n", exit_text(json_root(doc), text));
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}

/* --- logs --- */

/* The newest job of the box. */
static int find_newest(struct cli *c, const char *id, char ret[24])
{
    uint64_t newest = 0;
    char target[128];
    struct json_doc *doc;
    const struct json *jobs;
    int code;

    jobs_target(id, "", target, sizeof(target));
    code = cli_fetch(c, "GET", target, &doc);
    if (code != CLI_OK)
        return code;
    jobs = json_get(json_root(doc), "jobs");
    for (size_t i = 0; i < json_len(jobs); i++) {
        uint64_t number;

        if (str_parse_u64(show_str(json_at(jobs, i), "job"), 1, UINT64_MAX, &number))
            newest = MAX_OF(newest, number);
    }
    (void) json_doc_free(doc);
    if (newest == 0) {
        struct sp_failure f = {.code = SP_NOT_FOUND,
                               .message = "nothing was started in this box that is still known: "
                                          "'sandpool exec --detach' starts a job"};

        return cli_fail(c, &f);
    }
    (void) snprintf(ret, 24, "%llu", (unsigned long long) newest);
    return CLI_OK;
}

int cmd_logs(struct cli *c)
{
    const struct cli_args *a = &c->args;
    char id[CLI_ID_MAX];
    char job[24];
    struct run_place place = {.client = c->client, .sandbox_id = id};
    struct run_command command = {.job = job, .want_follow = cli_flag(a, "follow"), .cli = c};
    struct run_result result;
    int code = CLI_OK;

    if (a->operand_count > 1 && !check_job(c, a->operands[1], &code))
        return code;
    code = cli_resolve(c, a->operands[0], id);
    if (code == CLI_OK && a->operand_count > 1)
        str_copy_cut(job, sizeof(job), a->operands[1]);
    else if (code == CLI_OK)
        code = find_newest(c, id, job);
    if (code != CLI_OK)
        return code;
    (void) signal(SIGPIPE, SIG_IGN); /* cannot fail for a valid number */
    command.signal_fd = run_signals_open(c);
    if (command.signal_fd < 0)
        return CLI_FAILED;
    run_in_box(&place, &command, &result);
    (void) close(command.signal_fd);
    return result.status == CLI_RUN_FAILED ? CLI_FAILED : result.status;
}
