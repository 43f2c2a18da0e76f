/* run_terminal.c - our own terminal: raw while a command in a box has it, as it was afterwards. */
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/run.h"

void run_terminal_make_raw(struct run_terminal *t)
{
    struct termios raw;

    if (t->is_raw || tcgetattr(STDIN_FILENO, &t->before) != 0)
        return; /* no terminal: input comes from elsewhere */
    raw = t->before;
    cfmakeraw(&raw);
    t->is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

void run_terminal_restore(struct run_terminal *t)
{
    if (t->is_raw)
        (void) tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before); /* it may be gone */
    t->is_raw = false;
}

void run_terminal_size(unsigned *ret_cols, unsigned *ret_rows)
{
    static const int fds[] = {STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO};
    struct winsize size;

    *ret_cols = 80;
    *ret_rows = 24;
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (ioctl(fds[i], TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
            *ret_cols = MIN_OF(size.ws_col, 4096U);
            *ret_rows = MIN_OF(size.ws_row, 4096U);
            return;
        }
    }
}
