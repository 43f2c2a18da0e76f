/* secret.c - a key that is stored in a separate file. The content of the file is never shown. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "config/config.h"

enum { FILE_MAX = 4096 }; /* the key, and any text after it */

static int check(const char *name, const char *key, size_t min, struct err *err)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < len; i++)
        if (key[i] <= ' ' || key[i] > '~')
            return err_set(err, SP_CONFIG,
                           "%s: the key may only have printable characters without spaces", name);
    if (len < min)
        return err_set(err, SP_CONFIG, "%s: the key must have at least %zu characters", name, min);
    return SP_OK;
}

int config_read_secret(const char *name, const char *path, size_t min, char *ret, size_t cap,
                       struct err *err)
{
    AUTO_CLOSE int fd = -1;
    char text[FILE_MAX + 1];
    ssize_t len = -1;
    int sys = file_open_regular(path, &fd); /* a reload happens on the loop: no pipe */

    ret[0] = '\0';
    if (sys == FILE_NOT_REGULAR)
        return err_set(err, SP_CONFIG, "%s '%.160s' is not a file", name, path);
    if (sys == 0)
        len = read(fd, text, FILE_MAX);
    if (len < 0)
        return err_sys(err, SP_CONFIG, sys != 0 ? sys : errno, "%s '%.160s'", name, path);
    text[len] = '\0';
    text[strcspn(text, "\r\n")] = '\0'; /* its first line */
    if (strlen(text) >= cap)
        return err_set(err, SP_CONFIG, "%s: the key is longer than %zu bytes", name, cap - 1);
    str_copy_cut(ret, cap, text);
    return check(name, ret, min, err);
}
