/* gather.c - a snapshot is made of a copy of the box: a container that never runs and has nothing of the box's own configuration. Its
 * files are put into the engine's storage by sandpool-helper while the box stands still, those of limited directories
 * (docker.disk: places), which the engine does not know, among them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker/capturing.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "helper/plan.h"

#define RESUME_NS (30 * NS_PER_S)

enum { PLAN_MAX = 256 * 1024, LAYERS_OF_PLAN = 16, FLATTEN_AT = 8 };

static void tick(struct capturing *c);

static void go(struct capturing *c, enum gather_step step)
{
    c->step = step;
    tick(c);
}

static const char *path_of(const struct json *container, const char *which)
{
    return json_str(json_get(json_get(json_get(container, "GraphDriver"), "Data"), which));
}

static bool is_wanted(const struct capturing *c)
{
    return c->request->op.state == OP_RUNNING;
}

bool gather_is_possible(const struct capturing *c)
{
    const struct json *box = json_root(c->container);
    const char *driver = json_str(json_get(json_get(box, "GraphDriver"), "Name"));

    return docker_mount_check(c->docker, NULL) == SP_OK && driver != NULL &&
           strncmp(driver, "overlay", 7) == 0 && path_of(box, "UpperDir") != NULL;
}

size_t gather_depth(const struct json *image)
{
    return json_len(json_get(json_get(image, "RootFS"), "Layers"));
}

static void put_name(const struct capturing *c, unsigned which, char ret[static 64])
{
    char hex[17];

    str_hex64(hex, c->request->snapshot.id);
    (void) snprintf(ret, 64, "sandpool-copy-%s%s", hex, which == COPY_FLAT ? "-flat" : "");
}

/* --- the end --- */

static void end(struct capturing *c)
{
    if (c->is_inside)
        gate_leave(&c->docker->copies);
    c->is_inside = false;
    c->on_gathered(c);
}

static void fail(struct capturing *c, int rc, const struct err *err)
{
    c->result = rc;
    c->err = *err;
    if (c->has_paused)
        go(c, GATHER_RESUMES);
    else
        end(c);
}

/* What could not be made one stays as it is; the engine's own limit is far. */
static void fail_flat(struct capturing *c, const struct err *err)
{
    log_warn("docker.not_flattened", LF_HEX("snapshot", c->request->snapshot.id),
             LF_STR("reason", err->msg));
    c->which = COPY_OF_BOX;
    end(c);
}

static void fail_step(struct capturing *c, int rc, const struct err *err)
{
    if (c->which == COPY_FLAT && is_wanted(c))
        fail_flat(c, err);
    else
        fail(c, rc, err);
}

/* False: nobody waits any more, and it is being ended. */
static bool may_go_on(struct capturing *c)
{
    struct err err;

    if (is_wanted(c))
        return true;
    fail(c, err_set(&err, SP_CANCELLED, "nobody waits for the snapshot"), &err);
    return false;
}

/* --- the container of the copy --- */

static void on_made(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, call.op);
    struct err err;
    int rc = docker_call_result(&c->call, &err);

    FAULT_POINT("copy.made");
    if (rc != SP_OK)
        fail_step(c, rc == SP_NOT_FOUND || rc == ERR_TAKEN ? SP_BACKEND_FAILED : rc, &err);
    else if (may_go_on(c))
        go(c, GATHER_LOOKS);
}

static void make(struct capturing *c)
{
    const struct json *box = json_root(c->container);
    struct json_out j;
    char name[64];

    put_name(c, c->which, name);
    c->copies[c->which].may_exist = true;
    docker_call_init(c->docker, &c->call, "POST");
    buf_printf(&c->call.path, "/containers/create?name=%s", name);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "Image", c->which == COPY_FLAT ? c->base : json_str(json_get(box, "Image")));
    json_begin_arr(&j, "Cmd"); /* engines want one; it never runs */
    json_put_str(&j, NULL, DOCKER_AGENT_DIR "/none");
    json_end(&j);
    json_begin_obj(&j, "Labels");
    json_put_str(&j, DOCKER_COPY, c->docker->instance);
    json_put_str(&j, DOCKER_COPY_OF, json_str(json_get(box, "Id")));
    json_end(&j);
    json_begin_obj(&j, "HostConfig");
    json_put_str(&j, "NetworkMode", "none");
    json_end(&j);
    json_end(&j);
    json_out_finish(&j, &c->call.body);
    docker_call_start(&c->call, RT_NEVER, on_made);
}

static void on_seen(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, call.op);
    struct docker_copy *copy = &c->copies[c->which];
    struct err err;
    int rc = docker_call_json(&c->call, &copy->shown, &err);

    if (rc == SP_OK && path_of(json_root(copy->shown), "UpperDir") == NULL)
        rc = err_set(&err, SP_UNSUPPORTED, "the engine does not say where its files are");
    if (rc != SP_OK)
        fail_step(c, rc == SP_NOT_FOUND ? SP_BACKEND_FAILED : rc, &err);
    else if (may_go_on(c))
        go(c, c->which == COPY_OF_BOX ? GATHER_PAUSES : GATHER_COPIES);
}

static void look(struct capturing *c)
{
    char name[64];

    put_name(c, c->which, name);
    docker_call_init(c->docker, &c->call, "GET");
    buf_printf(&c->call.path, "/containers/%s/json", name);
    docker_call_start(&c->call, RT_NEVER, on_seen);
}

/* --- the box stands still --- */

/* That it stands still for us is no news. */
static void note_pause(struct capturing *c, bool is_paused)
{
    struct docker_box *b = docker_box_find(c->docker, c->request->box.labels.box_id);

    if (b != NULL)
        b->is_paused = is_paused;
}

static void set_pause(struct capturing *c, bool is_paused, uint64_t limit_ns,
                      void (*on_done)(struct op *))
{
    note_pause(c, is_paused);
    docker_call_init(c->docker, &c->call, "POST");
    buf_printf(&c->call.path, "/containers/%.64s/%s",
               json_str(json_get(json_root(c->container), "Id")), is_paused ? "pause" : "unpause");
    docker_call_start(&c->call, limit_ns, on_done);
}

static void on_paused(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, call.op);
    struct err err;
    int rc = docker_call_result(&c->call, &err);

    FAULT_POINT("copy.paused");
    c->has_paused = rc == SP_OK || op->result != SP_OK; /* no answer: it may be */
    c->paused_ns = rt_now(&c->docker->loop->rt);
    if (!c->has_paused)
        note_pause(c, false);
    if (rc != SP_OK)
        fail(c, rc == SP_NOT_FOUND ? SP_SANDBOX_LOST : SP_BACKEND_FAILED, &err);
    else if (may_go_on(c))
        go(c, GATHER_COPIES);
}

static void pause_box(struct capturing *c)
{
    struct docker_found f = {0};

    docker_read_state(json_get(json_root(c->container), "State"), &f);
    if (f.is_paused) { /* somebody else wants it so */
        c->paused_ns = rt_now(&c->docker->loop->rt);
        go(c, GATHER_COPIES);
        return;
    }
    set_pause(c, true, RT_NEVER, on_paused);
}

/* A box that has ended meanwhile cannot be resumed either. */
static void on_resumed(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, call.op);
    struct err err;
    int rc = docker_call_result(&c->call, &err);

    FAULT_POINT("copy.resumed");
    c->has_paused = false;
    c->is_left_paused = op->result != SP_OK; /* no answer */
    if (rc != SP_OK)
        log_warn("docker.not_resumed", LF_HEX("box", c->request->box.labels.box_id),
                 LF_STR("reason", err.msg));
    c->request->frozen_ns = rt_now(&c->docker->loop->rt) - c->paused_ns;
    if (c->result != SP_OK)
        end(c);
    else if (may_go_on(c))
        go(c, GATHER_WEIGHS);
}

/* --- the files --- */

static void put_layers(const struct capturing *c, struct json_out *j)
{
    const struct json *copy = json_root(c->copies[COPY_OF_BOX].shown);
    const char *lower = path_of(copy, "LowerDir");
    char path[DOCKER_PATH_MAX];
    size_t count = 0;

    json_begin_arr(j, "from");
    json_put_str(j, NULL,
                 path_of(c->which == COPY_FLAT ? copy : json_root(c->container), "UpperDir"));
    while (c->which == COPY_FLAT && lower != NULL && *lower != '\0' && count < c->flat_layers) {
        size_t len = strcspn(lower, ":");

        if (str_copy_n(path, sizeof(path), lower, len) && strstr(path, "-init/") == NULL) {
            json_put_str(j, NULL,
                         path); /* not what Docker puts between a container and its image */
            count++;
        }
        lower += len + (lower[len] == ':');
    }
    json_end(j);
}

static void put_plan(struct capturing *c)
{
    const struct json *box = json_root(c->container);
    uint64_t pid = 0;
    struct json_out j;

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    put_layers(c, &j);
    json_put_str(&j, "to", path_of(json_root(c->copies[c->which].shown), "UpperDir"));
    json_put_u64(&j, "reserve", c->docker->reserve);
    if (c->which == COPY_OF_BOX && c->has_places &&
        json_u64(json_get(json_get(box, "State"), "Pid"), &pid)) {
        json_put_str(&j, "container", json_str(json_get(box, "Id")));
        json_put_u64(&j, "pid", pid);
    }
    json_end(&j);
    buf_fini(&c->plan);
    buf_init(&c->plan, PLAN_MAX);
    json_out_finish(&j, &c->plan);
}

static int read_answer(struct capturing *c, struct err *err)
{
    struct json_doc *doc;
    int rc = SP_OK;

    if (c->child.exit_code != 0) {
        (void) child_explain(&c->child, "sandpool-helper gather",
                             err); /* it is an error for sure */
        return err->code = helper_code(c->child.exit_code);
    }
    doc = json_parse(buf_str(&c->child.out), c->child.out.len, CHILD_OUTPUT_MAX, err);
    if (doc == NULL || !json_u64(json_get(json_root(doc), "size"), &c->request->snapshot.size))
        rc = err_set(err, SP_PROTOCOL, "sandpool-helper gather gave no answer");
    (void) json_doc_free(doc);
    return rc;
}

static void end_flat(struct capturing *c)
{
    c->request->snapshot.layers = 1;
    end(c);
}

static void on_copied(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, child.op);
    struct err err = op->err;
    int rc = op->result == SP_OK ? read_answer(c, &err) : op->result;

    FAULT_POINT("copy.filled");
    child_fini(&c->child);
    if (rc != SP_OK)
        fail_step(c, rc, &err);
    else if (c->which == COPY_FLAT)
        end_flat(c);
    else
        go(c, c->has_paused ? GATHER_RESUMES : GATHER_WEIGHS);
}

static void copy_files(struct capturing *c)
{
    put_plan(c);
    c->argv[0] = c->docker->helper;
    c->argv[1] = "gather";
    c->child = (struct child){
        .argv = c->argv, .input = buf_str(&c->plan), .input_len = c->plan.len, .pass_fd = -1};
    child_start(c->docker->loop, &c->child, NULL, RT_NEVER, on_copied); /* our end cancels it */
}

/* --- many snapshots on each other --- */

static void on_base(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, call.op);
    size_t depth = gather_depth(json_root(c->image));
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&c->call, &doc, &err);
    size_t below = rc == SP_OK ? gather_depth(json_root(doc)) : 0;

    (void) json_doc_free(doc);
    if (!may_go_on(c))
        return;
    if (rc != SP_OK || below == 0 || depth < below || depth - below + 1 > LAYERS_OF_PLAN) {
        if (rc == SP_OK)
            (void) err_set(&err, SP_UNSUPPORTED, "%zu layers on %zu are not its snapshots", depth,
                           below);
        fail_flat(c, &err);
        return;
    }
    c->flat_layers = depth - below;
    c->which = COPY_FLAT;
    go(c, GATHER_MAKES);
}

static void weigh(struct capturing *c)
{
    if (c->image == NULL || str_is_empty(c->base) || c->request->snapshot.layers <= FLATTEN_AT) {
        end(c);
        return;
    }
    docker_call_init(c->docker, &c->call, "GET");
    buf_printf(&c->call.path, "/images/%s/json", c->base);
    docker_call_start(&c->call, RT_NEVER, on_base);
}

/* --- it is removed --- */

static void on_removed(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, call.op);
    struct err err;
    int rc = docker_call_result(&c->call, &err);

    if (rc != SP_OK && rc != SP_NOT_FOUND)
        c->docker->has_old_copies = true; /* it is tried again after the next listing */
    go(c, GATHER_REMOVES);
}

static void remove_next(struct capturing *c)
{
    char name[64];

    if (c->is_left_paused) {
        c->docker->has_old_copies = true;
        c->copies[COPY_OF_BOX].may_exist = false; /* it says which box is to be resumed */
    }
    for (unsigned i = 0; i < COPY_COUNT; i++) {
        if (!c->copies[i].may_exist)
            continue;
        c->copies[i].may_exist = false;
        put_name(c, i, name);
        docker_call_init(c->docker, &c->call, "DELETE");
        buf_printf(&c->call.path, "/containers/%s?force=1&v=1", name);
        docker_call_start(&c->call, RT_NEVER, on_removed);
        return;
    }
    c->on_removed(c);
}

void gather_remove(struct capturing *c)
{
    go(c, GATHER_REMOVES);
}

/* --- the steps --- */

static void on_turn(struct waiter *w)
{
    struct capturing *c = container_of(w, struct capturing, waiter);

    c->is_inside = true;
    go(c, GATHER_MAKES);
}

static void tick(struct capturing *c)
{
    switch (c->step) {
    case GATHER_AT_GATE:
        c->waiter.resume = on_turn;
        if (gate_enter(&c->docker->copies, &c->waiter))
            on_turn(&c->waiter);
        return;
    case GATHER_MAKES:
        make(c);
        return;
    case GATHER_LOOKS:
        look(c);
        return;
    case GATHER_PAUSES:
        pause_box(c);
        return;
    case GATHER_COPIES:
        copy_files(c);
        return;
    case GATHER_RESUMES:
        set_pause(c, false, rt_after(rt_now(&c->docker->loop->rt), RESUME_NS), on_resumed);
        return;
    case GATHER_WEIGHS:
        weigh(c);
        return;
    case GATHER_REMOVES:
        remove_next(c);
        return;
    case GATHER_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

void gather_start(struct capturing *c)
{
    c->result = SP_OK;
    go(c, GATHER_AT_GATE);
}

/* Calls that change something go on to their end, which is soon. */
void gather_cancel(struct capturing *c)
{
    struct err err;

    if (c->step == GATHER_AT_GATE && list_is_linked(&c->waiter.link)) {
        list_remove(&c->docker->copies.waiting, &c->waiter.link);
        fail(c, err_set(&err, SP_CANCELLED, "nobody waits for the snapshot"), &err);
    } else if (c->step == GATHER_COPIES && op_is_active(&c->child.op)) {
        op_cancel(&c->child.op);
    }
}
