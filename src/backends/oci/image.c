/* image.c - the steps from a reference to a directory: children and file work one after the other.
 *
 *   PREPARE -+-> found ------------------------------------------------------------> done
 *            +-> busy: again in a moment
 *            +-> INSPECT (digest) -> KNOWN -+-> found ---------------------> CLEAN -> done
 *                                           +-> COPY -> UNPACK -> SETTLE -> CLEAN -> done
 * Any failure or cancel goes to CLEAN. */
#include "backends/oci/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/image_files.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "loop/child.h"
#include "loop/work.h"

#define BUSY_WAIT_NS (50 * NS_PER_MS)
#define PACKAGES "the packages skopeo and umoci must be installed"

enum step {
    STEP_PREPARE,
    STEP_INSPECT,
    STEP_KNOWN,
    STEP_COPY,
    STEP_UNPACK,
    STEP_SETTLE,
    STEP_CLEAN,
    STEP_COUNT
};

/* Of what a program says on one line: with the name of the image before it, it fits into a reason
 * (POOL_REASON_MAX) that a caller is shown. */
enum { TOOL_LINE_MAX = 96, TOOL_HEAD = 16 };

struct run {
    struct oci_image *image;
    struct loop *loop;
    struct image_files files;
    enum step step;
    int result; /* how it will end, once that is known */
    struct err err;
    struct work work;
    struct child child;
    struct rt_timer again;
    bool is_waiting;
    char skopeo[256];
    char umoci[256];
    char layout[512];
    char rootfs[512];
    const char *argv[10];
};

static void begin_step(struct run *run, enum step step);

/* Only where the children will look, too. */
static bool find_tool(const char *name, char *dst, size_t cap)
{
    const char *path = getenv("PATH");

    if (path == NULL)
        path = "/usr/local/bin:/usr/bin:/bin";
    while (*path != '\0') {
        size_t len = strcspn(path, ":");
        int n = snprintf(dst, cap, "%.*s/%s", (int) len, path, name);

        if (path[0] == '/' && n > 0 && (size_t) n < cap && access(dst, X_OK) == 0)
            return true;
        path += len;
        path += *path == ':';
    }
    return false;
}

static void finish(struct run *run)
{
    struct oci_image *r = run->image;
    struct err err = run->err;
    int result = run->result;

    if (result == SP_OK) {
        str_copy_cut(r->rootfs, sizeof(r->rootfs), run->files.rootfs);
        str_copy_cut(r->workdir, sizeof(r->workdir), run->files.workdir);
        r->env = run->files.env;
        run->files.env = NULL;
    } else {
        (void) err_wrap(&err, "image '%.40s'", r->image);
    }
    image_files_fini(&run->files);
    r->priv = NULL;
    free(run);
    op_finish(&r->op, result, &err);
}

static void end(struct run *run, int result, const struct err *err)
{
    run->result = result;
    if (result != SP_OK && err != NULL)
        run->err = *err;
    if (run->files.lock_fd >= 0)
        begin_step(run, STEP_CLEAN);
    else
        finish(run);
}

static bool is_cancelled(const struct run *run)
{
    return run->image->op.state == OP_CANCELING;
}

/* --- on another thread --- */

static int on_thread(struct work *w, struct err *err)
{
    struct run *run = container_of(w, struct run, work);

    switch (run->step) {
    case STEP_PREPARE:
        return image_files_prepare(&run->files, err);
    case STEP_KNOWN:
        return image_files_known(&run->files, err);
    case STEP_SETTLE:
        return image_files_settle(&run->files, err);
    case STEP_CLEAN:
        image_files_clean(&run->files);
        return SP_OK;
    case STEP_INSPECT:
    case STEP_COPY:
    case STEP_UNPACK:
    case STEP_COUNT:
        break;
    }
    assert(false && "no file work in this step");
    return SP_INTERNAL;
}

static void on_again(struct rt_timer *timer)
{
    struct run *run = container_of(timer, struct run, again);

    run->is_waiting = false;
    begin_step(run, STEP_PREPARE);
}

static void after_prepare(struct run *run)
{
    struct err err;

    if (run->files.is_busy) {
        run->is_waiting = true;
        rt_timer_set(&run->loop->rt, &run->again, rt_now(&run->loop->rt) + BUSY_WAIT_NS, on_again);
        return;
    }
    if (!find_tool("skopeo", run->skopeo, sizeof(run->skopeo))) {
        end(run, err_set(&err, SP_UNSUPPORTED, "no program skopeo: " PACKAGES), &err);
        return;
    }
    if (!find_tool("umoci", run->umoci, sizeof(run->umoci))) {
        end(run, err_set(&err, SP_UNSUPPORTED, "no program umoci: " PACKAGES), &err);
        return;
    }
    begin_step(run, STEP_INSPECT);
}

static void on_work(struct op *op)
{
    struct run *run = container_of(op, struct run, work.op);

    if (run->step == STEP_CLEAN) {
        finish(run);
        return;
    }
    /* What is there is there, whoever has stopped waiting for it. */
    if (op->result != SP_OK || run->files.is_found || run->step == STEP_SETTLE) {
        end(run, op->result, &op->err);
        return;
    }
    if (is_cancelled(run))
        end(run, SP_CANCELLED, NULL);
    else if (run->step == STEP_PREPARE)
        after_prepare(run);
    else
        begin_step(run, STEP_COPY);
}

/* --- children --- */

/* The last line a program wrote, without the dress of its log. */
static int tool_failed(const struct run *run, struct err *err)
{
    const struct child *c = &run->child;
    const char *name = run->step == STEP_UNPACK ? "umoci" : "skopeo";
    const char *text = buf_str(&c->err);
    size_t len = strlen(text);
    const char *line;
    const char *msg;

    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '"'))
        len--;
    line = text + len;
    while (line > text && line[-1] != '\n')
        line--;
    msg = strstr(line, "msg=\"");
    if (msg != NULL && msg < text + len)
        line = msg + strlen("msg=\"");
    len = (size_t) (text + len - line);
    if (len > TOOL_LINE_MAX) /* these programs put the cause last */
        return err_set(err, SP_BACKEND_FAILED, "%s: %.*s ... %.*s", name, TOOL_HEAD, line,
                       TOOL_LINE_MAX - TOOL_HEAD, line + len - (TOOL_LINE_MAX - TOOL_HEAD));
    if (len > 0)
        return err_set(err, SP_BACKEND_FAILED, "%s: %.*s", name, (int) len, line);
    return err_set(err, SP_BACKEND_FAILED, "%s ended with status %d, signal %d", name, c->exit_code,
                   c->signum);
}

static int take_digest(struct run *run, struct err *err)
{
    const struct buf *out = &run->child.out;
    unsigned char digest[32];
    struct sha256 hash;

    if (out->len == 0 || out->len >= CHILD_OUTPUT_MAX)
        return err_set(err, SP_BACKEND_FAILED, "its manifest has %zu bytes", out->len);
    sha256_init(&hash);
    sha256_add(&hash, out->data, out->len);
    sha256_end(&hash, digest);
    str_hex(run->files.digest, digest, sizeof(digest));
    return SP_OK;
}

static void on_child(struct op *op)
{
    struct run *run = container_of(op, struct run, child.op);
    struct err err = op->err;
    int rc = op->result;

    if (rc == SP_OK && run->child.exit_code != 0)
        rc = tool_failed(run, &err);
    if (rc == SP_OK && run->step == STEP_INSPECT)
        rc = take_digest(run, &err);
    child_fini(&run->child);
    if (rc == SP_OK && is_cancelled(run))
        rc = SP_CANCELLED;
    if (rc != SP_OK)
        end(run, rc, &err);
    else if (run->step == STEP_INSPECT)
        begin_step(run, STEP_KNOWN);
    else if (run->step == STEP_COPY)
        begin_step(run, STEP_UNPACK);
    else
        begin_step(run, STEP_SETTLE);
}

static void set_argv(struct run *run, const char *const *argv)
{
    size_t count = 0;

    for (; *argv != NULL; argv++) {
        assert(count < ARRAY_LEN(run->argv) - 1);
        run->argv[count++] = *argv;
    }
    run->argv[count] = NULL;
}

#define SET_ARGV(run, ...) set_argv(run, (const char *const[]){__VA_ARGS__, NULL})

/* The lock is passed on: a child that outlives us keeps others away until it has ended. */
static void start_child(struct run *run)
{
    (void) snprintf(run->layout, sizeof(run->layout), "oci:%s/layout:box", run->files.tmp);
    (void) snprintf(run->rootfs, sizeof(run->rootfs), "%s/bundle/rootfs", run->files.tmp);
    if (run->step == STEP_INSPECT)
        SET_ARGV(run, run->skopeo, "--tmpdir", run->files.tmp, "inspect", "--raw",
                 run->files.reference);
    else if (run->step == STEP_COPY)
        SET_ARGV(run, run->skopeo, "--tmpdir", run->files.tmp, "copy", "--quiet",
                 run->files.reference, run->layout);
    else if (geteuid() == 0) /* raw: the plain form also reads files of the stranger's tree */
        SET_ARGV(run, run->umoci, "raw", "unpack", "--image", run->layout + strlen("oci:"),
                 run->rootfs);
    else
        SET_ARGV(run, run->umoci, "raw", "unpack", "--rootless", "--image",
                 run->layout + strlen("oci:"), run->rootfs);
    run->child = (struct child){.argv = run->argv, .pass_fd = run->files.lock_fd};
    child_start(run->loop, &run->child, NULL, RT_NEVER, on_child); /* ours cancels it */
}

static void begin_step(struct run *run, enum step step)
{
    run->step = step;
    switch (step) {
    case STEP_PREPARE:
    case STEP_KNOWN:
    case STEP_SETTLE:
    case STEP_CLEAN:
        run->work = (struct work){.run = on_thread};
        work_start(run->loop, &run->work, NULL, RT_NEVER, on_work);
        return;
    case STEP_INSPECT:
    case STEP_COPY:
    case STEP_UNPACK:
        if (step != STEP_INSPECT && run->image->on_step != NULL)
            run->image->on_step(run->image, step == STEP_COPY ? "copying" : "unpacking");
        start_child(run);
        return;
    case STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

/* --- the operation --- */

static void on_cancel(struct op *op)
{
    struct oci_image *r = container_of(op, struct oci_image, op);
    struct run *run = r->priv;

    if (run == NULL)
        return; /* it has ended and its end waits to be reported */
    if (run->is_waiting) {
        rt_timer_cancel(&run->loop->rt, &run->again);
        run->result = SP_CANCELLED;
        finish(run);
    } else if (op_is_active(&run->child.op)) {
        op_cancel(&run->child.op);
    } else if (run->step != STEP_CLEAN && op_is_active(&run->work.op)) {
        op_cancel(&run->work.op);
    }
}

void oci_image_start(struct loop *l, struct oci_image *r, struct list *owner, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct run *run = xcalloc(1, sizeof(*run));
    struct image_files *f = &run->files;
    int rc;

    op_begin(&r->op, &l->rt, owner, deadline_ns, on_cancel, on_done);
    r->priv = run;
    r->env = NULL;
    run->image = r;
    run->loop = l;
    rc = image_files_init(f, r->image, &run->err);
    f->user_id = r->user_id;
    if (rc == SP_OK &&
        (!str_copy(f->user, sizeof(f->user), r->user) ||
         snprintf(f->dir, sizeof(f->dir), "%s/images", r->cache_dir) >= (int) sizeof(f->dir)))
        rc = err_set(&run->err, SP_TOO_BIG, "the name of its user or directory is too long");
    if (rc != SP_OK) {
        run->result = rc;
        finish(run);
        return;
    }
    begin_step(run, STEP_PREPARE);
}

void oci_image_fini(struct oci_image *r)
{
    image_env_free(r->env);
    r->env = NULL;
}
