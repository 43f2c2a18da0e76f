/* errors.c - look-ups in the error table. */
#include "sandpool/errors.h"

#include <stddef.h>
#include <string.h>

/* clang-format off */
static const struct sp_error_info table[] = {
    {SP_OK, "ok", 200, false, "success"},
#define X(name, wire, status, retry, text) {SP_##name, wire, status, retry, text},
    SP_ERROR_TABLE(X)
#undef X
};
/* clang-format on */

const struct sp_error_info *sp_error_info(int code)
{
    int index = -code;

    if (index < 0 || index >= (int) SP_ERROR_INDEX_COUNT)
        index = (int) SP_ERROR_INDEX_INTERNAL;
    return &table[index];
}

int sp_error_from_name(const char *name)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].code;
    return SP_INTERNAL;
}
