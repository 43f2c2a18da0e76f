/* upgrade_start.c - a successor of our own making: the program again, from where it was started. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/internal.h"
#include "daemon/orphan.h"
#include "daemon/upgrade.h"

enum { ARGS_MAX = 64 };

/* It is no child of ours, so only its descriptor shows whether it still runs. */
static bool is_one_started(struct upgrade *h)
{
    struct pollfd ended = {.fd = h->started_fd, .events = POLLIN};

    if (h->started_fd > 0 && poll(&ended, 1, 0) != 0) {
        (void) close(h->started_fd); /* nothing to do about it here */
        h->started_fd = 0;
    }
    return h->started_fd > 0;
}

void upgrade_start(struct upgrade *h)
{
    static char takeover[] = "--takeover";
    char *const *own = h->daemon->options->argv;
    char *argv[ARGS_MAX + 2];
    size_t count = 0;
    pid_t pid = 0;
    int r = ENOENT;

    while (own[count] != NULL && count < ARGS_MAX) {
        argv[count] = own[count];
        count++;
    }
    argv[count] = takeover; /* once more does no harm */
    argv[count + 1] = NULL;
    if (is_one_started(h) || h->listener == NULL || own[count] != NULL)
        r = EBUSY;
    else if (h->program[0] != '\0')
        r = orphan_start(h->program, argv, &pid, &h->started_fd);
    if (r != 0)
        log_error("upgrade.not_started", LF_STR("program", h->program), LF_I64("errno", r));
    else
        log_info("upgrade.started", LF_STR("program", h->program), LF_I64("pid", pid));
}
