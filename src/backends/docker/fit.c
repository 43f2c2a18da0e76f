/* fit.c - files of a snapshot that an engine opens by itself when it starts a container, to find out who its user is. Whoever
 * made the snapshot has chosen what they are: with a named pipe the engine waits for ever, the container can be neither
 * started nor removed, and Podman lists none any more. And the directories through which its runtime goes by itself: where the
 * container begins, and where the agent is. A link there that leads into /proc, by way of /proc/self/fd, leads to what the runtime
 * has open: older ones (runc before 1.1.12) leave directories of the host open. The engine is asked what they are, which opens none
 * of them. */
#include <string.h>

#include "backends/docker/making.h"
#include "base/base64.h"
#include "base/str.h"

#define READ_MAX (4ULL << 20) /* bytes: the whole file is read */

enum { STAT_MAX = 16 * 1024, LINKS_MAX = 8, PARTS_MAX = 32 };

/* Of Go's os.FileMode, in which engines say it. */
#define GO_DIRECTORY (1ULL << 31)
#define GO_LINK (1ULL << 27)
#define GO_DEVICE (1ULL << 26)
#define GO_PIPE (1ULL << 25)
#define GO_SOCKET (1ULL << 24)
#define GO_IRREGULAR (1ULL << 19)
#define GO_KINDS (GO_DIRECTORY | GO_LINK | GO_DEVICE | GO_PIPE | GO_SOCKET | GO_IRREGULAR)

static const char *const files[] = {"/etc/passwd", "/etc/group"};

static void look(struct making *m);

static const char *kind_of(uint64_t mode)
{
    return (mode & GO_PIPE) != 0        ? "a named pipe"
           : (mode & GO_DIRECTORY) != 0 ? "a directory"
           : (mode & GO_DEVICE) != 0    ? "a device"
           : (mode & GO_LINK) != 0      ? "a link to a link"
                                        : "something else";
}

static const char *looked_at(const struct making *m)
{
    assert(!str_is_empty(m->fit.dir) || m->fit.at < ARRAY_LEN(files));
    return str_is_empty(m->fit.dir) ? files[m->fit.at] : m->fit.dir;
}

static int no_fit(const struct making *m, const char *what, struct err *err)
{
    return err_set(err, SP_INVALID_FIELD, "no box can be made of this snapshot: '%.100s' is %s",
                   looked_at(m), what);
}

static bool is_of_runtimes(const char *path)
{
    static const char *const tops[] = {"/proc", "/sys", "/dev"};

    for (size_t i = 0; i < ARRAY_LEN(tops); i++) {
        size_t len = strlen(tops[i]);

        if (strncmp(path, tops[i], len) == 0 && (path[len] == '\0' || path[len] == '/'))
            return true;
    }
    return false;
}

/* The engine has followed a link to its end. */
static int judge_dir(const struct making *m, uint64_t mode, const char *target, struct err *err)
{
    if ((mode & GO_LINK) != 0 && strcmp(m->fit.dir, DOCKER_AGENT_DIR) != 0 && target != NULL &&
        target[0] == '/' && !is_of_runtimes(target))
        return SP_OK;
    if ((mode & GO_KINDS) == GO_DIRECTORY && !is_of_runtimes(m->fit.dir))
        return SP_OK;
    return no_fit(m,
                  (mode & GO_LINK) != 0        ? "a link to where no box can begin"
                  : is_of_runtimes(m->fit.dir) ? "where no box can begin"
                                               : "not a directory",
                  err);
}

/* SP_OK: m->fit.path is where a link leads to, or empty. */
static int judge(struct making *m, const struct json *said, struct err *err)
{
    const char *target = json_str(json_get(said, "linkTarget"));
    uint64_t mode = 0;
    uint64_t size = 0;

    m->fit.path[0] = '\0';
    if (!json_u64(json_get(said, "mode"), &mode) || !json_u64(json_get(said, "size"), &size))
        return err_set(err, SP_PROTOCOL, "the engine does not say what '%.100s' is", looked_at(m));
    if (!str_is_empty(m->fit.dir))
        return judge_dir(m, mode, target, err);
    if ((mode & GO_LINK) != 0 && m->fit.links < LINKS_MAX && target != NULL && target[0] == '/' &&
        str_copy(m->fit.path, sizeof(m->fit.path), target)) {
        m->fit.links++;
        return SP_OK;
    }
    if ((mode & GO_KINDS) != 0)
        return no_fit(m, kind_of(mode), err);
    return size <= READ_MAX ? SP_OK : no_fit(m, "longer than 4 MB", err);
}

/* The header is JSON in base64. */
static int read_stat(struct making *m, struct err *err)
{
    static const char name[] = "x-docker-container-path-stat:";
    const char *line = buf_str(&m->call.http.response_headers);
    struct json_doc *doc = NULL;
    struct buf text;
    int rc;

    while (line != NULL && strncasecmp(line, name, strlen(name)) != 0) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    line = line != NULL ? line + strlen(name) : "";
    line += strspn(line, " ");
    buf_init(&text, STAT_MAX);
    if (base64_decode(line, strcspn(line, "\n"), &text))
        doc = json_parse(buf_str(&text), text.len, STAT_MAX, err);
    rc = judge(m, doc != NULL ? json_root(doc) : NULL, err);
    (void) json_doc_free(doc);
    buf_fini(&text);
    return rc;
}

static bool is_unknown_link(const struct making *m)
{
    return m->docker->is_podman && !str_is_empty(m->fit.dir) &&
           strcmp(m->fit.dir, DOCKER_AGENT_DIR) != 0;
}

static void on_stat(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct err err;
    int rc = docker_call_result(&m->call, &err);

    if (rc == SP_OK)
        rc = read_stat(m, &err);
    else if (rc ==
             SP_NOT_FOUND) /* an engine does without it; Podman says so of links to nowhere, too */
        rc = is_unknown_link(m) ? no_fit(m, "not there, or a link to nowhere", &err) : SP_OK;
    if (rc != SP_OK) {
        making_undo(m, rc, &err);
        return;
    }
    if (making_is_over(m))
        return;
    if (!str_is_empty(m->fit.path)) {
        look(m);
        return;
    }
    m->fit.links = 0;
    m->fit.at++;
    making_go_on(m);
}

static void look(struct making *m)
{
    const char *path = str_is_empty(m->fit.path) ? looked_at(m) : m->fit.path;

    docker_call_init(m->docker, &m->call, "HEAD");
    buf_printf(&m->call.path, "/containers/%s/archive?path=", m->box->container);
    call_put(&m->call, path);
    m->call.http.want_headers = true;
    docker_call_start(&m->call, RT_NEVER, on_stat);
}

/* The part of the path that ends with its part number `n`, from 0. False: it has no more. */
static bool take_part(const char *path, unsigned n, char dst[DOCKER_PATH_MAX])
{
    size_t len = 0;

    for (unsigned i = 0; i <= n; i++) {
        len += strspn(path + len, "/");
        if (path[len] == '\0')
            return false;
        len += strcspn(path + len, "/");
    }
    return str_copy_n(dst, DOCKER_PATH_MAX, path, len);
}

/* True: m->fit.dir is the next one. The agent's own comes first. */
static bool next_dir(struct making *m)
{
    unsigned n = m->fit.at - (unsigned) ARRAY_LEN(files);

    if (n == 0)
        return str_copy(m->fit.dir, sizeof(m->fit.dir), DOCKER_AGENT_DIR);
    return take_part(m->image.work_dir, n - 1, m->fit.dir);
}

bool making_looks(struct making *m)
{
    struct err err;

    if (!m->fit.is_wanted || (m->fit.at >= ARRAY_LEN(files) && !next_dir(m)))
        return false;
    if (m->fit.at > ARRAY_LEN(files) + PARTS_MAX)
        making_undo(m, no_fit(m, "too deep to begin in", &err), &err);
    else
        look(m);
    return true;
}

/* What Docker and Podman say of a user or group that the files do not name, and Docker of a file where it has to begin. */
int making_explain(const struct making *m, int rc, struct err *err)
{
    if (!m->fit.is_wanted || (strstr(err->msg, "no matching entries in ") == NULL &&
                              strstr(err->msg, "Cannot mkdir: ") == NULL))
        return rc;
    (void) err_wrap(err, "no box can be made of this snapshot");
    return err->code = SP_INVALID_FIELD;
}
