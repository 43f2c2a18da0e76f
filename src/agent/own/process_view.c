/* process_view.c - jobs as JSON. A job that has only its record left looks like one whose output is lost. */
#include "agent/own/process_view.h"

#include <assert.h>
#include <stdio.h>

#include "base/str.h"

/* What a process and a record have in common. */
struct facts {
    uint64_t id;
    pid_t pid;
    const char *command;
    const char *tag;
    bool is_pty;
    enum process_outcome outcome;
    int exit_code;
    int signum;
    uint64_t started_ns;
    uint64_t ended_ns;
    struct {
        uint64_t size;
        uint64_t head;
        uint64_t tail_from;
        bool is_open;
    } streams[PROCESS_STREAM_COUNT];
};

static void look_at_process(const struct process *p, struct facts *ret)
{
    const struct rt *rt = &p->table->loop->rt;

    *ret = (struct facts){.id = p->id,
                          .pid = p->pid,
                          .command = p->command,
                          .tag = p->tag,
                          .is_pty = p->is_pty,
                          .outcome = p->outcome,
                          .exit_code = p->exit_code,
                          .signum = process_is_running(p) ? 0 : p->signum,
                          .started_ns = p->started_ns,
                          .ended_ns = process_is_running(p) ? rt_now(rt) : p->ended_ns};
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++) {
        const struct output *output = &p->streams[i].output;

        ret->streams[i].size = output->end;
        ret->streams[i].head = output->head.len;
        ret->streams[i].tail_from = output_seek(output, output->head.len);
        ret->streams[i].is_open = process_is_open(p, i);
    }
}

static void look_at_record(const struct process_record *r, struct facts *ret)
{
    *ret = (struct facts){.id = r->id,
                          .pid = r->pid,
                          .command = record_command(r),
                          .tag = record_tag(r),
                          .is_pty = r->is_pty,
                          .outcome = r->outcome,
                          .exit_code = r->exit_code,
                          .signum = r->signum,
                          .started_ns = r->started_ns,
                          .ended_ns = r->ended_ns};
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++) {
        ret->streams[i].size = r->bytes[i];
        ret->streams[i].tail_from = r->bytes[i];
    }
}

static void put_stream(struct json_out *o, const char *key, const struct facts *f, unsigned i)
{
    json_begin_obj(o, key);
    json_put_u64(o, "size", f->streams[i].size);
    json_put_u64(o, "head", f->streams[i].head);
    json_put_u64(o, "tail_from", f->streams[i].tail_from);
    json_put_bool(o, "open", f->streams[i].is_open);
    json_end(o);
}

void job_put(struct json_out *o, const struct rt *rt, const struct job *job)
{
    struct facts f;
    char text[32];

    assert(job->process != NULL || job->record != NULL);
    if (job->process != NULL)
        look_at_process(job->process, &f);
    else
        look_at_record(job->record, &f);
    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) f.id);
    json_put_str(o, "job", text);
    json_put_i64(o, "pid", f.pid);
    json_put_str(o, "command", f.command);
    json_put_str(o, "tag", f.tag);
    json_put_bool(o, "pty", f.is_pty);
    json_put_str(o, "outcome", process_outcome_name(f.outcome));
    if (f.outcome == PROCESS_EXITED)
        json_put_i64(o, "exit_code", f.exit_code);
    else
        json_put_null(o, "exit_code");
    json_put_str(o, "signal", f.signum != 0 ? process_signal_name(f.signum) : NULL);
    str_iso8601(text, rt_wall_at(rt, f.started_ns));
    json_put_str(o, "started_at", text);
    json_put_u64(o, "duration_ms", (f.ended_ns - f.started_ns) / NS_PER_MS);
    json_put_u64(o, "stdout_bytes", f.streams[PROCESS_STDOUT].size);
    json_put_u64(o, "stderr_bytes", f.streams[PROCESS_STDERR].size);
    put_stream(o, "stdout", &f, PROCESS_STDOUT);
    put_stream(o, "stderr", &f, PROCESS_STDERR);
}

void process_put(struct json_out *o, const struct process *p)
{
    const struct job job = {.process = (struct process *) (uintptr_t) p}; /* only read */

    job_put(o, &p->table->loop->rt, &job);
}

bool job_of(struct http_exchange *ex, struct job *ret)
{
    struct agent *a = http_server_ctx(ex);
    uint64_t id;

    *ret = (struct job){.process = NULL};
    if (str_parse_u64(http_path_param(ex, "job"), 1, UINT64_MAX, &id)) {
        ret->process = process_find(a->processes, id);
        if (ret->process == NULL)
            ret->record = records_find(&a->processes->records, id);
    }
    if (ret->process != NULL || ret->record != NULL)
        return true;
    http_reply_error(ex, SP_NOT_FOUND, "no such job", 0);
    return false;
}

struct process *process_of(struct http_exchange *ex)
{
    struct job job;

    if (!job_of(ex, &job))
        return NULL;
    if (job.process == NULL)
        http_reply_error(ex, SP_JOB_ENDED, "the job has ended", 0);
    return job.process;
}

void job_reply(struct http_exchange *ex, const struct job *job)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    job_put(&o, &http_loop(ex)->rt, job);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

void process_reply(struct http_exchange *ex, struct process *p)
{
    job_reply(ex, &(struct job){.process = p});
}
