/* mount.c - directories of the host for a container that runs. No engine can do that, so it is done past
 * it: the engine reports the container's first process, and sandpool-helper attaches them in its mount
 * namespace. For that the daemon must be root on the engine's machine. They go with the container. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/str.h"
#include "helper/plan.h"

enum { PLAN_MAX = 256 * 1024 };

static void end(struct docker_mounting *m, int rc, const struct err *err)
{
    if (m->is_inside)
        gate_leave(&m->docker->mounts);
    m->is_inside = false;
    closing_finish(&m->docker->closing, &m->op, rc, err);
}

/* --- the helper --- */

static void on_child(struct op *op)
{
    struct docker_mounting *m = container_of(op, struct docker_mounting, child.op);
    struct err err = op->err;
    int rc = op->result;

    if (rc == SP_OK && m->child.exit_code != 0) {
        (void) child_explain(&m->child,
                             m->disk > 0 ? "sandpool-helper disk" : "sandpool-helper mount",
                             &err); /* it is an error for sure */
        rc = err.code = helper_code(m->child.exit_code);
    }
    end(m, rc, &err);
}

static void put_plan(struct docker_mounting *m, uint64_t pid)
{
    const struct backend_extras *x = m->extras;
    char word[CONFIG_TEXT_MAX + 1];
    struct json_out j;

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "container", m->container);
    json_put_u64(&j, "pid", pid);
    if (m->has_agent)
        json_put_str(&j, "program", DOCKER_AGENT_DIR "/agent");
    if (m->disk > 0)
        docker_disk_plan(m->docker, m, &j);
    json_begin_arr(&j, "mounts");
    for (size_t i = 0; x != NULL && i < x->mount_count; i++)
        backend_mount_put(&j, &x->mounts[i]);
    json_end(&j);
    json_begin_arr(&j, "allow");
    for (const char *list = m->docker->allow; config_list_next(&list, word, sizeof(word));)
        json_put_str(&j, NULL, word);
    json_end(&j);
    json_end(&j);
    buf_init(&m->plan, PLAN_MAX);
    json_out_finish(&j, &m->plan);
}

static void start_child(struct docker_mounting *m)
{
    m->argv[0] = m->docker->helper;
    m->argv[1] = m->disk > 0 ? "disk" : "mount";
    m->child.argv = m->argv;
    m->child.input = buf_str(&m->plan);
    m->child.input_len = m->plan.len;
    m->child.pass_fd = -1;
    child_start(m->docker->loop, &m->child, NULL, RT_NEVER, on_child); /* our end cancels it */
}

/* --- which process --- */

bool docker_is_other_kernel(const char *runtime)
{
    return runtime != NULL && (strstr(runtime, "runsc") != NULL || strstr(runtime, "kata") != NULL);
}

static int read_pid(const struct call *c, uint64_t *ret, struct err *err)
{
    struct json_doc *doc = NULL;
    const struct json *state;
    int rc = docker_call_json(c, &doc, err);

    if (rc == SP_NOT_FOUND)
        return err_set(err, ERR_BOX_DEAD, "the box does not run");
    if (rc != SP_OK)
        return rc;
    state = json_get(json_root(doc), "State");
    if (!json_u64(json_get(state, "Pid"), ret) || *ret < 2)
        rc = err_set(err, ERR_BOX_DEAD, "the box does not run");
    else if (docker_is_other_kernel(
                 json_str(json_get(json_get(json_root(doc), "HostConfig"), "Runtime"))) ||
             docker_is_other_kernel(json_str(json_get(json_root(doc), "OCIRuntime"))))
        rc = err_set(err, SP_UNSUPPORTED, "the box's runtime takes no mounts once it runs");
    (void) json_doc_free(doc);
    return rc;
}

static void on_inspected(struct op *op)
{
    struct docker_mounting *m = container_of(op, struct docker_mounting, call.op);
    struct err err;
    uint64_t pid = 0;
    int rc = read_pid(&m->call, &pid, &err);

    if (rc != SP_OK) {
        end(m, rc, &err);
    } else if (m->op.state != OP_RUNNING) {
        end(m, SP_CANCELLED, NULL);
    } else {
        put_plan(m, pid);
        start_child(m);
    }
}

static void on_turn(struct waiter *w)
{
    struct docker_mounting *m = container_of(w, struct docker_mounting, waiter);

    m->is_inside = true;
    docker_call_init(m->docker, &m->call, "GET");
    buf_printf(&m->call.path, "/containers/%s/json", m->container);
    docker_call_start(&m->call, RT_NEVER, on_inspected);
}

static void on_cancel(struct op *op)
{
    struct docker_mounting *m = container_of(op, struct docker_mounting, op);

    if (list_is_linked(&m->waiter.link)) {
        list_remove(&m->docker->mounts.waiting, &m->waiter.link);
        end(m, SP_CANCELLED, NULL);
    } else if (op_is_active(&m->call.op)) {
        op_cancel(&m->call.op);
    } else if (op_is_active(&m->child.op)) {
        op_cancel(&m->child.op);
    }
}

int docker_mount_check(const struct docker *d, struct err *err)
{
    if (str_is_empty(d->socket))
        return err_set(
            err, SP_UNSUPPORTED,
            "mounts into a running box need an engine on this machine, at a Unix socket");
    if (geteuid() != 0)
        return err_set(err, SP_UNSUPPORTED,
                       "mounts into a running box need root, and the daemon does not run as root");
    if (str_is_empty(d->helper))
        return err_set(err, SP_UNSUPPORTED, "there is no sandpool-helper: set helper.path");
    return SP_OK;
}

void docker_mount_start(struct docker *d, struct docker_mounting *m, const char *container,
                        void (*on_done)(struct op *))
{
    struct err err;
    int rc;

    op_begin(&m->op, &d->loop->rt, &d->closing.inner, RT_NEVER, on_cancel, on_done);
    m->docker = d;
    m->waiter.resume = on_turn;
    str_copy_cut(m->container, sizeof(m->container), container);
    rc = docker_mount_check(d, &err);
    if (rc != SP_OK)
        end(m, rc, &err);
    else if (gate_enter(&d->mounts, &m->waiter))
        on_turn(&m->waiter);
}

void docker_mount_fini(struct docker_mounting *m)
{
    call_fini(&m->call);
    child_fini(&m->child);
    buf_fini(&m->plan);
}
