/* count.c - how many processes and mounts a container has, before it is removed. The engine names its first process; what
 * the kernel shows of that is counted on a thread, where the engine's processes can be seen. Elsewhere nothing is known:
 * engines count threads, not processes, and no mounts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

enum {
    COUNT_MS = 2000, /* a count that takes longer is done without */
    GROUPS_MAX = 16 * 1024,
    GROUP_MAX = 4096
};

static struct backend_count count_lines(int dir, const char *path)
{
    AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    uint64_t count = 0;
    char chunk[4096];
    ssize_t n;

    if (fd < 0)
        return (struct backend_count){0};
    while ((n = read(fd, chunk, sizeof(chunk))) > 0)
        for (ssize_t i = 0; i < n; i++)
            count += chunk[i] == '\n' ? 1 : 0;
    return n == 0 ? backend_counted(count) : (struct backend_count){0};
}

/* "4:pids:/docker/<id>", "0::/system.slice/docker-<id>.scope": the last one with the container's id in it. Version 1 has
 * the same processes in each of its hierarchies. */
static bool find_group(const char *text, const char *container, char ret[static GROUP_MAX])
{
    bool is_v2 = access(CGROUP_ROOT "/cgroup.controllers", F_OK) == 0;
    bool is_found = false;

    for (const char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        const char *names = memchr(line, ':', len);
        const char *path =
            names == NULL ? NULL : memchr(names + 1, ':', len - (size_t) (names + 1 - line));
        const char *id = memmem(line, len, container, strlen(container));
        bool is_wanted = path != NULL && id != NULL && (path - names > 1) != is_v2;

        if (is_wanted && memchr(names + 1, '=', (size_t) (path - names - 1)) == NULL)
            is_found = (size_t) snprintf(ret, GROUP_MAX, CGROUP_ROOT "%s%.*s%.*s/cgroup.procs",
                                         is_v2 ? "" : "/", (int) (path - names - 1), names + 1,
                                         (int) (line + len - path - 1), path + 1) < GROUP_MAX;
        line += len + (line[len] == '\n' ? 1 : 0);
    }
    return is_found;
}

static int run(struct work *w, struct err *err UNUSED)
{
    struct docker_counting *c = container_of(w, struct docker_counting, work);
    char text[GROUPS_MAX];
    char path[GROUP_MAX];
    AUTO_CLOSE int proc = -1;

    (void) snprintf(path, sizeof(path), "/proc/%llu", (unsigned long long) c->pid);
    proc =
        open(path, O_PATH | O_DIRECTORY | O_CLOEXEC); /* of this process, also when it has ended */
    if (proc < 0 || file_read_start(proc, "cgroup", text, sizeof(text)) <= 0 ||
        !find_group(text, c->container, path))
        return SP_OK;
    c->processes = count_lines(AT_FDCWD, path);
    c->mounts = count_lines(proc, "mountinfo");
    return SP_OK;
}

static void on_counted(struct op *op)
{
    struct docker_counting *c = container_of(op, struct docker_counting, work.op);

    op_finish(&c->op, SP_OK, NULL);
}

static void on_inspected(struct op *op)
{
    struct docker_counting *c = container_of(op, struct docker_counting, call.op);
    struct docker *d = docker_of_call(&c->call);
    struct json_doc *doc = NULL;
    struct err err; /* whatever it is: the removal goes on without a count */
    const struct json *state;
    bool is_here = !d->base.is_elsewhere;

    if (docker_call_json(&c->call, &doc, &err) == SP_OK) {
        state = json_get(json_root(doc), "State");
        if (!json_u64(json_get(state, "Pid"), &c->pid))
            is_here = false;
        else if (c->pid == 0 && !json_bool(json_get(state, "Running")))
            c->processes = c->mounts = backend_counted(0);
        is_here = is_here &&
                  !docker_is_other_kernel(
                      json_str(json_get(json_get(json_root(doc), "HostConfig"), "Runtime"))) &&
                  !docker_is_other_kernel(json_str(json_get(json_root(doc), "OCIRuntime")));
    }
    (void) json_doc_free(doc);
    if (c->pid < 2 || !is_here) {
        op_finish(&c->op, SP_OK, NULL);
        return;
    }
    c->work.run = run;
    work_start(d->loop, &c->work, &d->closing.inner, RT_NEVER, on_counted);
}

void docker_count_start(struct docker *d, struct docker_counting *c, const char *container,
                        uint64_t deadline_ns, void (*on_done)(struct op *))
{
    uint64_t limit_ns = rt_after(rt_now(&d->loop->rt), COUNT_MS * NS_PER_MS);

    op_begin(&c->op, &d->loop->rt, &d->closing.inner, RT_NEVER, NULL, on_done);
    str_copy_cut(c->container, sizeof(c->container), container);
    docker_call_init(d, &c->call, "GET");
    buf_printf(&c->call.path, "/containers/%s/json", container);
    docker_call_start(&c->call, MIN_OF(limit_ns, deadline_ns), on_inspected);
}

void docker_count_fini(struct docker_counting *c)
{
    call_fini(&c->call);
}
