/* shell_dir.c - looks at a directory as the user will, before a shell is told to go there. */
#include "agent/shell_dir.h"

#include <stdlib.h>

#include "base/str.h"

/* As the user; false when it does not fit. */
static bool resolve(const struct identity *id, const char *dir, char *dst)
{
    char *real;
    bool is_fitting;

    if (identity_enter(id) != 0)
        return false;
    real = realpath(dir, NULL);
    identity_leave(id);
    is_fitting = real != NULL && str_copy(dst, SHELL_DIR_MAX, real);
    free(real);
    return is_fitting;
}

int shell_dir_pick(const struct agent *a, const char *dir, bool keep_links, char *dst,
                   struct err *err)
{
    if (dir[0] == '/' && identity_can_enter(&a->user, dir) &&
        (keep_links ? str_copy(dst, SHELL_DIR_MAX, dir) : resolve(&a->user, dir, dst)))
        return SP_OK;
    return err_set(err, SP_INVALID_FIELD, "'exec_dir' is not a directory that can be entered");
}
