/* about.c - describes the system of the box, for /v1/sandbox. */
#include "agent/aio/about.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/core/listening.h"
#include "agent/core/plain.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "sandpool/version.h"

enum {
    TEXT_MAX = 128,
    FILE_MAX = 8192,
};

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/* --- the system --- */

/* The beginning of a small file as text; "" when there is none. */
static void read_start(const char *path, char *ret, size_t cap)
{
    AUTO_CLOSE int fd = plain_open_file(AT_FDCWD, path, O_RDONLY, 0, NULL);
    ssize_t len = fd >= 0 ? read(fd, ret, cap - 1) : 0;

    ret[len > 0 ? len : 0] = '\0';
}

/* One line of printable text, or nothing. */
static bool take_line(char *dst, const char *text)
{
    size_t len = strcspn(text, "\r\n");

    return len > 0 && str_copy_n(dst, TEXT_MAX, text, len) && str_is_utf8(dst, len);
}

static void find_os_version(char *dst, const char *kernel)
{
    static const char key[] = "\nPRETTY_NAME=";
    char text[FILE_MAX] = "\n";
    char *at;

    read_start("/etc/os-release", text + 1, sizeof(text) - 1);
    at = strstr(text, key);
    if (at != NULL) {
        char quote = at[sizeof(key) - 1];

        at += sizeof(key) - 1 + (quote == '"' || quote == '\'');
        at[strcspn(at, "\"'\r\n")] = '\0';
    }
    if (at == NULL || !take_line(dst, at))
        str_copy_cut(dst, TEXT_MAX, kernel);
}

static void find_timezone(char *dst, const char *variable)
{
    static const char zones[] = "/zoneinfo/";
    char text[FILE_MAX];
    const char *at;
    ssize_t len;

    if (variable != NULL && take_line(dst, variable + (variable[0] == ':')))
        return;
    read_start("/etc/timezone", text, sizeof(text));
    if (take_line(dst, text))
        return;
    len = readlink("/etc/localtime", text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = '\0';
    at = strstr(text, zones);
    if (at == NULL || !take_line(dst, at + strlen(zones)))
        str_copy_cut(dst, TEXT_MAX, "UTC");
}

/* --- ports --- */

static void put_ports(struct json_out *o)
{
    struct listening *found = xcalloc(LISTENING_MAX, sizeof(*found));
    size_t count = listening_find(found, LISTENING_MAX);
    char text[8];

    for (size_t i = 0; i < count; i++) {
        if (i > 0 && found[i].port == found[i - 1].port)
            continue;
        (void) snprintf(text, sizeof(text), "%u", (unsigned) found[i].port);
        json_put_str(o, NULL, text);
    }
    free(found);
}

/* --- all of it --- */

static void put_system(struct json_out *o, const struct about *about, bool is_full)
{
    struct utsname name = {.sysname = "unknown"};
    char text[TEXT_MAX];

    (void) uname(&name); /* it cannot fail */
    json_begin_obj(o, "system");
    json_put_str(o, "os", name.sysname);
    find_os_version(text, name.release);
    json_put_str(o, "os_version", text);
    json_put_str(o, "kernel", name.release);
    json_put_str(o, "arch", name.machine);
    json_put_str(o, "hostname", name.nodename);
    json_put_str(o, "user", about->user->name);
    json_put_str(o, "home_dir", about->user->home);
    json_put_str(o, "workspace", about->workspace);
    find_timezone(text, env_table_get(about->env, "TZ"));
    json_put_str(o, "timezone", text);
    json_begin_arr(o, "occupied_ports");
    if (is_full)
        put_ports(o);
    json_end(o);
    json_end(o);
}

void about_put(struct json_out *o, const struct about *about, bool is_full)
{
    const char *path = env_table_get(about->env, "PATH");

    json_put_bool(o, "success", true);
    json_put_str(o, "message", "");
    json_put_null(o, "data");
    json_put_null(o, "hint");
    json_put_str(o, "home_dir", about->user->home);
    json_put_str(o, "workspace", about->workspace);
    json_put_str(o, "version", SANDPOOL_VERSION);
    json_begin_obj(o, "detail");
    put_system(o, about, is_full);
    about_put_programs(o, !is_full ? "" : path != NULL ? path : default_path);
    json_end(o);
}
