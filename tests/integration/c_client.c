/* c_client.c - a program as users of the library write it: each argument after the sandbox is one thing to do. Compiled against what
 * was installed. */
#include <fcntl.h>
#include <poll.h>
#include <sandpool/attach.h>
#include <sandpool/exec.h>
#include <sandpool/files.h>
#include <sandpool/sandbox.h>
#include <sandpool/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed;

#define CHECK(x)                                                                 \
    do {                                                                         \
        if (!(x)) {                                                              \
            fprintf(stderr, "%d: %s: %s %s\n", __LINE__, #x, f.name, f.message); \
            failed = 1;                                                          \
        }                                                                        \
    } while (0)

static struct sp_failure f;

static bool print(void *ctx, const char *data, size_t len)
{
    return fwrite(data, 1, len, ctx) == len && fflush(ctx) == 0;
}

static bool refuse(void *ctx, const char *data, size_t len)
{
    (void) ctx, (void) data, (void) len;
    return false;
}

static void run_commands(struct sp_box *b)
{
    const char *const argv[] = {"sh", "-c", "cat; echo $A; pwd; echo e >&2; exit 3", NULL};
    struct sp_env env = {"A", "x y"};
    struct sp_exec e = {.argv = argv,
                        .cwd = "/tmp",
                        .envs = &env,
                        .env_count = 1,
                        .input = "i\0\xff\n",
                        .input_len = 4};
    struct sp_exec_result r = {0};

    CHECK(sp_exec(b, &e, &r, &f) == SP_OK && r.outcome == SP_OUTCOME_EXITED && r.exit_code == 3);
    CHECK(r.out_len == 13 && memcmp(r.out, "i\0\xff\nx y\n/tmp\n", 13) == 0 &&
          strcmp(r.err, "e\n") == 0);
    CHECK(!r.is_truncated && r.out_bytes == 13 && r.signal[0] == '\0');
    sp_exec_result_fini(&r);
    e = (struct sp_exec){.command = "kill -9 $$"};
    CHECK(sp_exec(b, &e, &r, &f) == SP_OK && r.outcome == SP_OUTCOME_SIGNALLED &&
          r.exit_code == -1);
    CHECK(strcmp(r.signal, "SIGKILL") == 0);
    sp_exec_result_fini(&r);
    e = (struct sp_exec){.command = "echo a; sleep 1000", .timeout_ms = 200};
    CHECK(sp_exec(b, &e, &r, &f) == SP_OK && r.outcome == SP_OUTCOME_TIMED_OUT &&
          strcmp(r.out, "a\n") == 0);
    sp_exec_result_fini(&r);
    e = (struct sp_exec){.command = "yes | head -c 3000000; echo end", .max_output = 1000};
    CHECK(sp_exec(b, &e, &r, &f) == SP_OK && r.is_truncated && r.out_len == 1000 &&
          r.out_bytes == 3000004);
    CHECK(memcmp(r.out, "y\ny\n", 4) == 0 && strcmp(r.out + 996, "end\n") == 0);
    sp_exec_result_fini(&r);
    e = (struct sp_exec){.command = "echo a; sleep 1000", .on_stdout = refuse};
    CHECK(sp_exec(b, &e, &r, &f) == SP_OK && r.outcome == SP_OUTCOME_KILLED);
    sp_exec_result_fini(&r);
    e = (struct sp_exec){.command = "true", .argv = argv};
    CHECK(sp_exec(b, &e, &r, &f) == SP_INVALID_FIELD && f.message[0] != '\0');
    e = (struct sp_exec){.command = "true", .cwd = "/nosuch"};
    CHECK(sp_exec(b, &e, &r, &f) < 0 && f.http_status != 0);
}

static void run_jobs(struct sp_box *b)
{
    struct sp_exec e = {.command = "cat", .want_input = true};
    struct sp_exec_result r = {0};
    char job[SP_JOB_SIZE];
    char *data = calloc(1, 600000);

    memset(data, 'z', 600000);
    CHECK(sp_job_start(b, &e, job, &f) == SP_OK);
    CHECK(sp_job_write(b, job, data, 600000, false, &f) == SP_OK);
    CHECK(sp_job_write(b, job, "end", 3, true, &f) == SP_OK);
    CHECK(sp_job_follow(b, job, NULL, &r, &f) == SP_OK && r.exit_code == 0 && r.out_len == 600003);
    sp_exec_result_fini(&r);
    e = (struct sp_exec){.command = "sleep 1000"};
    CHECK(sp_job_start(b, &e, job, &f) == SP_OK && sp_job_signal(b, job, "TERM", &f) == SP_OK);
    CHECK(sp_job_follow(b, job, NULL, &r, &f) == SP_OK && strcmp(r.signal, "SIGTERM") == 0);
    sp_exec_result_fini(&r);
    CHECK(sp_job_kill(b, job, &f) == SP_OK &&
          sp_job_follow(b, "99999", NULL, &r, &f) == SP_NOT_FOUND);
    free(data);
}

static void run_files(struct sp_box *b)
{
    struct sp_file_options o = {.mode = 0640};
    struct sp_file_stat st;
    char name[] = "/tmp/sandpool-c-XXXXXX";
    int fd = mkstemp(name);
    char *data = NULL;
    size_t len = 0;
    bool is_there = true;

    (void) unlink(name);
    CHECK(sp_file_exists(b, "d/odd name%", NULL, &is_there, &f) == SP_OK && !is_there);
    CHECK(sp_file_write(b, "d/odd name%", &o, "a\0b", 3, &f) == SP_OK);
    CHECK(sp_file_exists(b, "d/odd name%", NULL, &is_there, &f) == SP_OK && is_there);
    CHECK(sp_file_read(b, "d/odd name%", NULL, &data, &len, &f) == SP_OK && len == 3 &&
          memcmp(data, "a\0b", 4) == 0);
    free(data);
    CHECK(sp_file_stat(b, "d/odd name%", NULL, &st, &f) == SP_OK && st.type == SP_FILE_REGULAR &&
          st.size == 3 && st.mode == 0640);
    CHECK(sp_file_write(b, "empty", NULL, NULL, 0, &f) == SP_OK);
    CHECK(sp_file_read(b, "empty", NULL, &data, &len, &f) == SP_OK && len == 0 && data[0] == '\0');
    free(data);
    CHECK(ftruncate(fd, 5000000) == 0 && sp_file_put(b, "big", NULL, fd, &f) == SP_OK);
    CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0 &&
          sp_file_get(b, "big", NULL, fd, &f) == SP_OK);
    CHECK(lseek(fd, 0, SEEK_END) == 5000000);
    CHECK(sp_file_make_directory(b, "x/y", NULL, &f) == SP_OK);
    CHECK(sp_file_list(b, "x", NULL, true, &data, &f) == SP_OK &&
          strstr(data, "\"/workspace/x/y\"") != NULL);
    free(data);
    CHECK(sp_file_remove(b, "x", NULL, true, &f) == SP_OK);
    CHECK(sp_file_read(b, "x", NULL, &data, &len, &f) < 0 && strcmp(f.name, "file_not_found") == 0);
    (void) close(fd);
}

/* --- attached --- */

struct seen {
    char text[256];
    size_t len;
};

static void keep(void *ctx, int stream, const char *data, size_t len)
{
    struct seen *s = ctx;

    if (stream == 1 && len < sizeof(s->text) - s->len) {
        memcpy(s->text + s->len, data, len);
        s->len += len;
    }
}

/* One step; false: it is over. */
static bool step(struct sp_attach *a)
{
    struct pollfd p = {.fd = sp_attach_fd(a), .events = sp_attach_events(a)};

    return sp_attach_end(a) == NULL && poll(&p, 1, 60 * 1000) == 1 &&
           sp_attach_step(a, &f) == SP_OK;
}

static void run_attached(struct sp_box *b)
{
    struct sp_exec e = {.command = "trap 'echo size' WINCH; cat; trap 'exit 9' USR1; echo on; "
                                   "while :; do sleep 0.05; done",
                        .want_input = true};
    struct seen s = {.len = 0};
    struct sp_attach_options o = {.on_output = keep, .ctx = &s};
    struct sp_attach *a;
    char job[SP_JOB_SIZE];

    o.job = job;
    CHECK(sp_job_start(b, &e, job, &f) == SP_OK);
    a = sp_attach_begin(b, &o, &f);
    CHECK(a != NULL);
    while (!sp_attach_is_open(a) && step(a))
        continue;
    CHECK(sp_attach_write(a, "in\n", 3) == 3);
    sp_attach_end_input(a);
    while (strstr(s.text, "on\n") == NULL && step(a))
        continue;
    CHECK(strcmp(s.text, "in\non\n") == 0);
    while (!sp_attach_is_taken(a) && step(a))
        continue;
    CHECK(sp_attach_is_taken(a));
    sp_attach_signal(a, "USR1");
    while (step(a))
        continue;
    CHECK(sp_attach_end(a) != NULL && strstr(sp_attach_end(a), "\"exit_code\":9") != NULL);
    sp_attach_free(a);
    /* from an offset; one that has ended */
    memset(&s, 0, sizeof(s));
    o.offset = 3;
    a = sp_attach_begin(b, &o, &f);
    while (step(a))
        continue;
    CHECK(sp_attach_end(a) != NULL && strcmp(s.text, "on\n") == 0);
    sp_attach_free(a);
    o.job = "999";
    a = sp_attach_begin(b, &o, &f);
    while (step(a))
        continue;
    CHECK(sp_attach_end(a) == NULL && f.code == SP_NOT_FOUND);
    sp_attach_free(a);
}

/* --- sandboxes --- */

static bool find_box(void *ctx, const struct sp_sandbox *s)
{
    char *id = ctx;

    if (strcmp(s->box_id, id) != 0)
        return true;
    id[0] = '\0'; /* found */
    return false;
}

static bool count_snapshot(void *ctx, const struct sp_snapshot *s)
{
    if (strcmp(s->name, "one") == 0)
        ++*(int *) ctx;
    return true;
}

static void run_snapshots(struct sp_client *c, const char *id)
{
    struct sp_acquire a = {.thread_id = "restored"};
    struct sp_fork two = {.count = 2};
    struct sp_branch made[2];
    struct sp_snapshot s;
    struct sp_lease lease;
    struct sp_box *b;
    char *data = NULL;
    size_t len;
    int count = 0;

    CHECK(sp_snapshot_create(c, id, "one", "{\"k\":1}", &s, &f) == SP_OK);
    CHECK(sp_snapshot_get(c, s.snapshot_id, &s, &f) == SP_OK && strcmp(s.name, "one") == 0);
    CHECK(sp_snapshot_list(c, count_snapshot, &count, &f) == SP_OK && count == 1);
    a.snapshot_id = s.snapshot_id;
    CHECK(sp_acquire(c, &a, &lease, &f) == SP_OK && strcmp(lease.source, "restored") == 0);
    b = sp_box_new(c, lease.sandbox_id);
    CHECK(sp_file_read(b, "kept", NULL, &data, &len, &f) == SP_OK && strcmp(data, "here") == 0);
    free(data);
    sp_box_free(b);
    CHECK(sp_release(c, "thread:default/restored", lease.generation, true, &f) == SP_OK);
    CHECK(sp_fork(c, id, &two, made, &f) == SP_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(made[i].failure.code == SP_OK);
        CHECK(sp_destroy(c, made[i].lease.sandbox_id, 0, true, &f) == SP_OK);
    }
    CHECK(sp_snapshot_delete(c, s.snapshot_id, &f) == SP_OK);
    CHECK(sp_snapshot_get(c, s.snapshot_id, &s, &f) == SP_NOT_FOUND);
}

static void run_sandboxes(struct sp_client *c, struct sp_box *b, const char *id)
{
    struct sp_sandbox s;
    char box_id[17];
    char own[32];
    char *text = NULL;

    CHECK(sp_file_write(b, "kept", NULL, "here", 4, &f) == SP_OK);
    CHECK(sp_sandbox_get(c, id, true, &s, &f) == SP_OK && strcmp(s.state, "leased") == 0);
    CHECK(s.is_alive_known && s.is_alive && strcmp(s.thread_id, "calls") == 0);
    memcpy(box_id, s.box_id, sizeof(box_id));
    snprintf(own, sizeof(own), "box:%s", s.box_id);
    CHECK(sp_sandbox_list(c, NULL, find_box, box_id, &f) == SP_OK && box_id[0] == '\0');
    CHECK(sp_renew(c, "thread:default/calls", s.generation, 1000, &s, &f) == SP_OK);
    CHECK(s.ends_in_s > 0 && s.ends_in_s <= 1000 && s.expires_at[0] != '\0' &&
          s.ends_by[0] != '\0');
    CHECK(sp_renew(c, id, s.generation + 1, 0, NULL, &f) == SP_STALE_GENERATION);
    CHECK(sp_pause(c, own, s.generation, &s, &f) == SP_OK && s.is_paused);
    CHECK(sp_resume(c, own, s.generation, &s, &f) == SP_OK && !s.is_paused);
    run_snapshots(c, own);
    CHECK(sp_quote(c, NULL, 60, &text, &f) == SP_OK && strstr(text, "\"duration_s\":60") != NULL);
    free(text);
    CHECK(sp_usage(c, &(struct sp_usage){.thread_id = "calls"}, &text, &f) == SP_OK);
    CHECK(strstr(text, "\"usage\"") != NULL);
    free(text);
    CHECK(sp_destroy(c, own, s.generation, false, &f) == SP_OK);
    CHECK(sp_sandbox_get(c, own, false, &s, &f) == SP_NOT_FOUND ||
          strcmp(s.state, "deleting") == 0);
}

int main(int argc, char **argv)
{
    struct sp_client *c = sp_client_new(argv[1]);
    struct sp_box *b = sp_box_new(c, argv[2]);

    if (argc > 3) { /* one command, shown as it comes */
        struct sp_exec e = {.command = argv[3], .on_stdout = print, .ctx = stdout};
        struct sp_exec_result r = {0};

        CHECK(sp_exec(b, &e, &r, &f) == SP_OK);
        fprintf(stderr, "%s %d", sp_outcome_name(r.outcome), r.exit_code);
        sp_exec_result_fini(&r);
    } else {
        run_commands(b);
        run_jobs(b);
        run_files(b);
        run_attached(b);
        run_sandboxes(c, b, argv[2]);
    }
    sp_box_free(b);
    sp_client_free(c);
    return failed;
}
