/* container.c - the first process of a container of Docker or Podman: it is proved to be the container's
 * before anything is done to it, and it shows whose ids the container has. */
#include "helper/container.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "helper/proc.h"

enum { PROC_TEXT_MAX = 16 * 1024, FLAGS_COLUMN = 7 /* behind the name */ };

#define BEGIN_MS 5000
#define NOT_EXECUTED 0x40u /* PF_FORKNOEXEC of the kernel: it is what it was forked from */

/* The second number behind a word: "Uid:", tab, real, tab, effective ... */
static bool read_effective(const char *status, const char *word, uint32_t *ret)
{
    const char *line = strstr(status, word);
    unsigned real;

    return line != NULL && sscanf(line + strlen(word), "%u %u", &real, ret) == 2;
}

/* Of the container's root, as this machine sees it. */
static bool read_base(pid_t pid, uint32_t *ret)
{
    char text[512];
    unsigned inside = 1;

    return proc_read(pid, "uid_map", text, sizeof(text)) &&
           sscanf(text, "%u %u", &inside, ret) == 2 && inside == 0;
}

/* An engine says that a container runs when its runtime is about to become the container's program. Until then its root may be
 * another one. */
static bool has_begun(pid_t pid)
{
    char text[1024];
    const char *at = NULL;

    if (proc_read(pid, "stat", text, sizeof(text)))
        at = strrchr(text, ')'); /* the name may have any character in it */
    for (int i = 0; at != NULL && i < FLAGS_COLUMN; i++)
        at = strchr(at + 1, ' ');
    return at == NULL || (strtoul(at + 1, NULL, 10) & NOT_EXECUTED) == 0;
}

static int await_begin(pid_t pid, struct err *err)
{
    uint64_t deadline = proc_now_ms() + BEGIN_MS;

    while (!has_begun(pid)) {
        if (proc_now_ms() > deadline)
            return err_set(err, SP_TIMEOUT, "the box's program has not begun within %d s",
                           BEGIN_MS / 1000);
        proc_sleep_ms(2);
    }
    return SP_OK;
}

static int check_program(const struct plan *p, struct err *err)
{
    char path[64];
    char program[PLAN_PATH_MAX + 1];
    ssize_t len;

    if (p->program == NULL)
        return SP_OK;
    (void) snprintf(path, sizeof(path), "/proc/%d/exe", p->pid);
    len = readlink(path, program, sizeof(program) - 1);
    if (len < 0)
        return err_sys(err, ERR_BOX_DEAD, errno, "the box does not run");
    program[len] = '\0';
    if (strcmp(program, p->program) != 0)
        return err_set(err, SP_UNSUPPORTED,
                       "the box's first process is '%.60s', not '%.60s': its runtime keeps "
                       "another view of files",
                       program, p->program);
    return SP_OK;
}

int container_open(struct plan *p, int *ret_pid_fd, struct err *err)
{
    AUTO_CLOSE int fd = pidfd_open(p->pid, 0);
    AUTO_FREE char *text = try_realloc(NULL, PROC_TEXT_MAX);
    struct pollfd end = {.fd = fd, .events = POLLIN};
    int rc;

    if (fd < 0)
        return err_sys(err, ERR_BOX_DEAD, errno, "the box does not run");
    if (text == NULL)
        return err_set(err, SP_NO_MEMORY, "no memory");
    if (!proc_is_inner_init(p->pid) || !proc_read(p->pid, "cgroup", text, PROC_TEXT_MAX) ||
        strstr(text, p->container) == NULL)
        return err_set(err, ERR_BOX_DEAD,
                       "process %d is not the container's: the daemon must see the processes of "
                       "the engine's machine",
                       p->pid);
    if ((rc = await_begin(p->pid, err)) != SP_OK || (rc = check_program(p, err)) != SP_OK)
        return rc;
    if (!proc_read(p->pid, "status", text, PROC_TEXT_MAX) || !read_base(p->pid, &p->id_base) ||
        !read_effective(text, "\nUid:", &p->owner_uid) ||
        !read_effective(text, "\nGid:", &p->owner_gid))
        return err_set(err, ERR_BOX_DEAD, "process %d does not show its ids", p->pid);
    if (poll(&end, 1, 0) != 0) /* else all that was read may be another's */
        return err_set(err, ERR_BOX_DEAD, "the box does not run");
    *ret_pid_fd = TAKE_FD(fd);
    return SP_OK;
}
