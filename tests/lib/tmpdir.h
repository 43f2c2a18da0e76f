/* tmpdir.h - a directory for one test, where the other tests have theirs. */
#pragma once

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "tests/lib/unit.h"

enum { TMPDIR_LEN = 64 };

#define TMPDIR_NAME "/sandpool-test-"

/* `dst` has room for TMPDIR_LEN bytes. */
static inline void tmpdir_make(char *dst)
{
    const char *top = getenv("TMPDIR");

    (void) snprintf(dst, TMPDIR_LEN, "%.40s" TMPDIR_NAME "XXXXXX", top == NULL ? "/tmp" : top);
    assert_non_null(mkdtemp(dst));
}

static inline int tmpdir_remove_entry(const char *path, const struct stat *st UNUSED,
                                      int type UNUSED, struct FTW *ftw UNUSED)
{
    return remove(path);
}

/* With all that is in it; nothing may be mounted there. */
static inline void tmpdir_remove(const char *dir)
{
    assert_non_null(strstr(dir, TMPDIR_NAME));
    assert_int_equal(nftw(dir, tmpdir_remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT), 0);
}
