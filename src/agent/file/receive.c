/* receive.c - runs in a helper. The frames come from the agent, which is trusted. */
#include "agent/file/receive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/core/helper.h"
#include "agent/core/plain.h"
#include "agent/file/job.h"
#include "agent/file/result.h"
#include "agent/file/store.h"
#include "base/file.h"
#include "base/str.h"

enum { CHUNK = 64 * 1024 };

static const char operation[] = "upload";

struct state {
    const struct file_receive *request;
    struct file_store store;
    char target[FILE_PATH_MAX]; /* "": not known when the file was opened */
    uint64_t size;
};

/* The path as it was given; below it, when it is a directory. 0 or errno. */
static int find_target(struct state *s, const char *given)
{
    const struct file_receive *r = s->request;
    char path[FILE_PATH_MAX];
    const char *slash = strrchr(r->filename, '/');
    const char *name = slash != NULL ? slash + 1 : r->filename;
    size_t len;
    struct stat st;
    int n;

    if (!file_path_resolve(r->base, r->user->home, given, path, sizeof(path)))
        return ENAMETOOLONG;
    len = strlen(path);
    if ((plain_stat(AT_FDCWD, path, &st) != 0 || !S_ISDIR(st.st_mode)) && path[len - 1] != '/')
        return str_copy(s->target, sizeof(s->target), path) ? 0 : ENAMETOOLONG;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return EISDIR;
    n = snprintf(s->target, sizeof(s->target), "%s%s%s", path, path[len - 1] == '/' ? "" : "/",
                 name);
    return n > 0 && (size_t) n < sizeof(s->target) ? 0 : ENAMETOOLONG;
}

static int open_store(struct state *s)
{
    const struct file_receive *r = s->request;
    int sys = r->knows_path ? find_target(s, r->path) : 0;

    if (sys != 0)
        return sys;
    if (s->target[0] != '\0')
        return file_store_open(&s->store, s->target);
    sys = file_store_open_loose(&s->store, r->base);
    return sys == EACCES || sys == EROFS ? file_store_open_loose(&s->store, "/tmp") : sys;
}

/* 0, errno, or -1 when the agent has gone. */
static int take_data(struct state *s, int fd, size_t len)
{
    static char data[CHUNK];
    int sys = 0;

    while (len > 0 && sys == 0) {
        size_t n = MIN_OF(len, sizeof(data));

        if (!helper_receive(fd, data, n))
            return -1;
        sys = file_write_all(s->store.fd, data, n);
        len -= n;
        s->size += n;
    }
    return sys;
}

/* The same. */
static int commit(struct state *s, int fd, size_t len)
{
    char path[FILE_PATH_MAX];
    int sys;

    if (len >= sizeof(path) || !helper_receive(fd, path, len))
        return -1;
    path[len] = '\0';
    if (s->target[0] != '\0')
        return file_store_commit(&s->store);
    sys = find_target(s, path);
    return sys != 0 ? sys : file_store_commit_to(&s->store, s->target);
}

static void answer(const struct state *s, int fd, int sys)
{
    const struct file_dialect *dialect = s->request->dialect;
    struct file_error error;
    struct buf text;

    buf_init(&text, 64 * 1024);
    if (sys != 0) {
        (void) file_error_sys(&error, operation,
                              s->target[0] != '\0' ? s->target : s->request->base, sys);
        dialect->print_error(&text, &error);
    } else {
        dialect->print_stored(&text, s->target, s->size);
    }
    file_result_send(fd, sys != 0 ? error.status : 200, &text);
    buf_fini(&text);
}

void file_receive_run(const struct file_receive *r, int fd)
{
    static struct state s;
    struct file_frame frame = {.kind = FILE_FRAME_DATA};
    int sys;

    s.request = r;
    sys = open_store(&s);
    while (sys == 0 && frame.kind != FILE_FRAME_END) {
        if (!helper_receive(fd, &frame, sizeof(frame)))
            sys = -1;
        else if (frame.kind == FILE_FRAME_END)
            sys = commit(&s, fd, frame.len);
        else
            sys = take_data(&s, fd, frame.len);
    }
    file_store_drop(&s.store);
    if (sys >= 0)
        answer(&s, fd, sys);
}
