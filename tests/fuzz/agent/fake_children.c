/* fake_children.c - defines the functions of spawn.c, descendants.c, helper.c and helper_child.c, so
 * that the linker does not take those. The code between them and their callers is the real code of
 * the agent. */
#include "fake_children.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/helper.h"
#include "agent/file/frame.h"
#include "agent/process/descendants.h"
#include "agent/process/spawn.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/rand.h"

enum { STEPS_MAX = 4096, WRITTEN_MAX = 1 << 20, SENT_MAX = 8 << 20 };

struct helper {
    struct helper_table *table;
    struct helper_job job;
    struct list_node link;
    struct rt_task task;
    struct buf written; /* frames from the agent */
    size_t taken;       /* of them */
    struct buf sent;    /* the answer */
    bool is_paused;
    bool is_write_due;
    bool is_run;
};

static struct helper *current; /* whose file call runs */
static struct rand random_cuts;
static char tree[64];
static int real_root = -1;
static int real_dir = -1;
static bool can_chroot;
static bool is_tree_dirty = true;
static unsigned steps;
static unsigned busy;

static bool leave_tree(void)
{
    return fchdir(real_root) == 0 && chroot(".") == 0 && fchdir(real_dir) == 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void) st;
    (void) kind;
    (void) at;
    (void) remove(path);
    return 0;
}

static void remove_tree(void)
{
    if (tree[0] != '\0')
        (void) nftw(tree, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    (void) snprintf(path, sizeof(path), "%s/%s", tree, name);
    file = fopen(path, "w");
    if (file != NULL) {
        (void) fputs(text, file);
        (void) fclose(file);
    }
}

static void make_tree(void)
{
    char path[128];

    remove_tree();
    (void) mkdir(tree, 0700);
    (void) snprintf(path, sizeof(path), "%s/d", tree);
    (void) mkdir(path, 0700);
    put_file("a", "one\ntwo\nthree\n");
    put_file("d/b.txt", "caf\xc3\xa9 \xff\xfe\n");
    put_file("d/empty", "");
    (void) snprintf(path, sizeof(path), "%s/link", tree);
    (void) symlink("d", path);
    (void) snprintf(path, sizeof(path), "%s/fifo", tree);
    (void) mkfifo(path, 0600);
}

void fake_children_init(void)
{
    (void) snprintf(tree, sizeof(tree), "/tmp/sandpool-fuzz-%d", (int) getpid());
    (void) atexit(remove_tree);
    if (geteuid() != 0)
        (void) unshare(CLONE_NEWUSER);
    real_root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_tree();
    real_dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    can_chroot = real_root >= 0 && real_dir >= 0 && chroot(tree) == 0 && leave_tree();
    fprintf(stderr, "file calls %s\n", can_chroot ? "run" : "fail: no chroot() here");
}

void fake_children_begin(uint64_t seed)
{
    rand_seed(&random_cuts, seed);
    if (is_tree_dirty)
        make_tree();
    is_tree_dirty = false;
    busy = 0;
}

bool fake_children_are_busy(void)
{
    return busy > 0;
}

/* --- helper_child.c --- */

bool helper_must_stop(void)
{
    return ++steps > STEPS_MAX;
}

bool helper_send(int fd, const void *data, size_t len)
{
    (void) fd;
    buf_append(&current->sent, data, len);
    return !buf_failed(&current->sent);
}

bool helper_receive(int fd, void *dst, size_t len)
{
    (void) fd;
    if (len > current->written.len - current->taken)
        return false;
    memcpy(dst, buf_str(&current->written) + current->taken, len);
    current->taken += len;
    return true;
}

bool helper_send_file(int fd, int file, uint64_t at, uint64_t len)
{
    char data[512];

    while (len > 0) {
        ssize_t n = pread(file, data, MIN_OF(len, sizeof(data)), (off_t) at);

        if (n <= 0 || !helper_send(fd, data, (size_t) n))
            return false;
        at += (uint64_t) n;
        len -= (uint64_t) n;
    }
    return true;
}

/* It has waited long enough. */
bool helper_wait(int fd, int other, int timeout_ms, bool *ret_is_over)
{
    (void) fd;
    (void) other;
    (void) timeout_ms;
    *ret_is_over = true;
    return false;
}

/* --- helper.c --- */

void helper_table_init(struct helper_table *t, struct loop *l, const struct oom_score *score)
{
    memset(t, 0, sizeof(*t));
    t->loop = l;
    t->score = score;
    list_init(&t->list);
}

void helper_table_fini(struct helper_table *t)
{
    assert(list_is_empty(&t->list));
}

static void run(struct helper *h)
{
    h->is_run = true;
    if (!can_chroot || chroot(tree) != 0)
        return; /* as a helper that died */
    is_tree_dirty = true;
    steps = 0;
    current = h;
    (void) h->job.choose(h->job.ctx);
    h->job.run(h->job.ctx, -1);
    current = NULL;
    if (!leave_tree())
        abort();
}

static void on_turn(struct rt_task *task)
{
    struct helper *h = container_of(task, struct helper, task);
    struct rt *rt = &h->table->loop->rt;
    char data[512];
    size_t n;

    if (h->is_write_due) {
        h->is_write_due = false;
        rt_defer(rt, &h->task, on_turn);
        h->job.on_written(h->job.ctx, true);
        return;
    }
    if (!h->is_run || h->is_paused)
        return;
    n = 1 + rand_below(&random_cuts, sizeof(data));
    n = MIN_OF(n, h->sent.len);
    if (n == 0) {
        busy--;
        h->is_run = false; /* it has ended */
        h->job.on_end(h->job.ctx);
        return;
    }
    memcpy(data, buf_str(&h->sent), n);
    buf_consume(&h->sent, n);
    rt_defer(rt, &h->task, on_turn);
    h->job.on_data(h->job.ctx, data, n);
}

struct helper *helper_start(struct helper_table *t, const struct helper_job *job)
{
    struct helper *h = xcalloc(1, sizeof(*h));

    h->table = t;
    h->job = *job;
    buf_init(&h->written, WRITTEN_MAX);
    buf_init(&h->sent, SENT_MAX);
    list_push_back(&t->list, &h->link);
    busy++;
    if (job->on_written == NULL)
        run(h);
    rt_defer(&t->loop->rt, &h->task, on_turn);
    return h;
}

void helper_read(struct helper *h, bool is_on)
{
    h->is_paused = !is_on;
    if (is_on)
        rt_defer(&h->table->loop->rt, &h->task, on_turn);
}

void helper_write(struct helper *h, const char *head, size_t head_len, const char *data, size_t len)
{
    struct file_frame frame;

    assert(head_len == sizeof(frame));
    memcpy(&frame, head, sizeof(frame));
    buf_append(&h->written, head, head_len);
    buf_append(&h->written, data, len);
    h->is_write_due = true;
    if (frame.kind == FILE_FRAME_END)
        run(h);
    rt_defer(&h->table->loop->rt, &h->task, on_turn);
}

void helper_leave(struct helper *h)
{
    if (h->is_run || h->job.on_written != NULL)
        busy -= busy > 0;
    rt_undefer(&h->table->loop->rt, &h->task);
    list_remove(&h->table->list, &h->link);
    buf_fini(&h->written);
    buf_fini(&h->sent);
    free(h);
}

bool helper_is_mine(const struct helper_table *t, pid_t pid)
{
    (void) t;
    (void) pid;
    return false;
}

bool helper_reaped(struct helper_table *t, pid_t pid)
{
    (void) t;
    (void) pid;
    return false;
}

/* --- spawn.c: `cat` for a process with input, else a process that has ended --- */

int spawn_resize(int fd, uint16_t cols, uint16_t rows, struct err *err)
{
    (void) cols;
    (void) rows;
    return fd >= 0 ? SP_OK : err_set(err, SP_IO, "no terminal");
}

static pid_t start_child(bool is_cat, int fd)
{
    static char *const argv[] = {(char *) (uintptr_t) "cat", NULL};
    pid_t pid = vfork();

    if (pid != 0)
        return pid;
    (void) setsid();
    for (int i = 0; i < 3; i++)
        (void) dup2(fd, i);
    if (is_cat)
        (void) execv("/bin/cat", argv);
    (void) !write(1, "output\n", 7);
    _exit(3);
}

int spawn_start(const struct spawn_request *r, const struct oom_score *score,
                struct spawn_result *ret, struct err *err)
{
    int fds[2];

    (void) score;
    if (r->argv[0] == NULL || strcmp(r->argv[0], "nothing") == 0)
        return err_set(err, SP_NOT_FOUND, "no such program");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
        abort();
    (void) fcntl(fds[1], F_SETFL, 0);
    ret->pid = start_child(r->want_stdin || r->want_pty, fds[1]);
    (void) close(fds[1]);
    ret->out = fds[0];
    ret->in = r->want_stdin && !r->want_pty ? fcntl(fds[0], F_DUPFD_CLOEXEC, 3) : -1;
    ret->err = -1;
    return ret->pid > 0 ? SP_OK : err_set(err, SP_IO, "no process");
}

/* --- descendants.c: there are none --- */

void descendants_signal(struct descendants *s, pid_t leader, int signum)
{
    (void) s;
    (void) kill(-leader, signum);
}

void descendants_kill(struct descendants *s, pid_t leader)
{
    (void) leader;
    (void) s;
}

bool descendants_has_living(const struct descendants *s, pid_t leader)
{
    (void) s;
    (void) leader;
    return false;
}

void descendants_forget(struct descendants *s)
{
    (void) s;
}

void descendants_end_own(bool (*is_spared)(pid_t pid, void *ctx), void *ctx)
{
    (void) is_spared;
    (void) ctx;
}

bool descendants_has_own(bool (*is_spared)(pid_t pid, void *ctx), void *ctx)
{
    (void) is_spared;
    (void) ctx;
    return false;
}

void descendants_kill_own(void)
{
}
