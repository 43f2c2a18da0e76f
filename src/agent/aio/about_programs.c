/* about_programs.c - which programs a box has, found by name in the directories of $PATH. A version
 * is taken from the name (python3.11, or a link to it) or from a file beside it: no program is run
 * to find it. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/aio/about.h"
#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "base/str.h"

enum { DIRS_MAX = 32, DIR_LEN = 256, NAMES_MAX = 16, FOUND_MAX = 16 };

struct dirs {
    char names[DIRS_MAX][DIR_LEN];
    size_t count;
};

/* One program with all the names it was found under. */
struct found {
    dev_t dev;
    ino_t ino;
    char bin[DIR_LEN + 64];
    char version[16];
    const char *names[NAMES_MAX];
    size_t name_count;
};

static const struct tool {
    const char *category;
    const char *name;
    const char *description;
} tools[] = {
    {"shell", "bash", "shell"},
    {"shell", "zsh", "shell"},
    {"shell", "tmux", "several terminals in one"},
    {"text", "rg", "searches files by regular expressions"},
    {"text", "jq", "reads and changes JSON"},
    {"text", "vim", "editor"},
    {"text", "nano", "editor"},
    {"network", "curl", "transfers from and to URLs"},
    {"network", "wget", "downloads from URLs"},
    {"network", "ssh", "shell on another machine"},
    {"development", "git", "version control"},
    {"development", "gh", "client of GitHub"},
    {"development", "make", "builds by rules"},
    {"development", "cmake", "makes build files"},
    {"development", "gcc", "C compiler"},
    {"development", "clang", "C compiler"},
    {"development", "go", "Go compiler and tools"},
    {"development", "cargo", "Rust builds and packages"},
    {"development", "java", "runs Java programs"},
    {"package", "pip", "Python packages"},
    {"package", "uv", "Python packages and versions"},
    {"package", "npm", "Node.js packages"},
    {"package", "pnpm", "Node.js packages"},
    {"package", "apt-get", "Debian packages"},
    {"archive", "tar", "tar archives"},
    {"archive", "zip", "makes zip archives"},
    {"archive", "unzip", "unpacks zip archives"},
    {"media", "ffmpeg", "converts sound and video"},
    {"media", "convert", "converts images"},
    {"media", "pandoc", "converts documents"},
    {"media", "pdftotext", "text of PDF files"},
    {"data", "sqlite3", "SQLite databases"},
    {"data", "psql", "client of PostgreSQL"},
};

static void split_path(const char *path, struct dirs *ret)
{
    ret->count = 0;
    while (*path != '\0' && ret->count < DIRS_MAX) {
        size_t len = strcspn(path, ":");
        char *dir = ret->names[ret->count];

        if (path[0] == '/' && str_copy_n(dir, DIR_LEN, path, len) && str_is_utf8(dir, len))
            ret->count++;
        path += len + (path[len] == ':');
    }
}

static bool is_program(const char *dir, const char *name, char *ret, size_t cap, struct stat *st)
{
    return (size_t) snprintf(ret, cap, "%s/%s", dir, name) < cap && stat(ret, st) == 0 &&
           S_ISREG(st->st_mode) && (st->st_mode & 0111) != 0;
}

static bool has_tool(const struct dirs *dirs, const char *name)
{
    char path[DIR_LEN + 64];
    struct stat st;

    for (size_t i = 0; i < dirs->count; i++)
        if (is_program(dirs->names[i], name, path, sizeof(path), &st))
            return true;
    return false;
}

/* --- runtimes --- */

/* "3.11" of "python3.11"; false for a name without a dot. */
static bool version_of(const char *name, char *ret, size_t cap)
{
    size_t start = strcspn(name, "0123456789");

    return strchr(name + start, '.') != NULL && strspn(name + start, "0123456789.") > 2 &&
           name[start + strspn(name + start, "0123456789.")] == '\0' &&
           str_copy(ret, cap, name + start);
}

static void add_name(struct found *f, const char *path, const char *name)
{
    bool has_version = !str_is_empty(f->version);

    for (size_t i = 0; i < f->name_count; i++)
        if (strcmp(f->names[i], name) == 0)
            return;
    if (f->name_count < NAMES_MAX)
        f->names[f->name_count++] = name;
    if (!has_version && version_of(name, f->version, sizeof(f->version)))
        str_copy_cut(f->bin, sizeof(f->bin), path);
}

static void find_names(const struct dirs *dirs, const char *const *names, struct found *found,
                       size_t *count)
{
    char path[DIR_LEN + 64];
    struct stat st;

    for (size_t d = 0; d < dirs->count; d++) {
        for (size_t n = 0; names[n] != NULL; n++) {
            size_t i = 0;

            if (!is_program(dirs->names[d], names[n], path, sizeof(path), &st))
                continue;
            while (i < *count && (found[i].dev != st.st_dev || found[i].ino != st.st_ino))
                i++;
            if (i == *count && i < FOUND_MAX) {
                found[i] = (struct found){.dev = st.st_dev, .ino = st.st_ino};
                str_copy_cut(found[i].bin, sizeof(found[i].bin), path);
                (*count)++;
            }
            if (i < *count)
                add_name(&found[i], path, names[n]);
        }
    }
}

/* "#define NODE_MAJOR_VERSION 20" and so on. */
static bool number_of(const char *text, const char *what, unsigned *ret)
{
    char line[64];
    const char *at;

    (void) snprintf(line, sizeof(line), "#define NODE_%s_VERSION ", what);
    at = strstr(text, line);
    return at != NULL && sscanf(at + strlen(line), "%5u", ret) == 1;
}

/* Node is installed with its headers, one of which contains the version; Debian has them in a
 * separate package. Only a regular file is read, because the box's root could put a named pipe
 * there. */
static void read_node_version(const char *real, struct found *f)
{
    const char *name = strrchr(real, '/');
    char path[PATH_MAX + 64];
    char text[8192];
    struct stat st;
    unsigned v[3];
    AUTO_CLOSE int fd = -1;
    ssize_t len;

    (void) snprintf(path, sizeof(path), "%.*s/../include/node/node_version.h", (int) (name - real),
                    real);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    len = read(fd, text, sizeof(text) - 1);
    if (len <= 0)
        return;
    text[len] = '\0';
    if (number_of(text, "MAJOR", &v[0]) && number_of(text, "MINOR", &v[1]) &&
        number_of(text, "PATCH", &v[2]))
        (void) snprintf(f->version, sizeof(f->version), "%u.%u.%u", v[0] % 1000, v[1] % 1000,
                        v[2] % 1000);
}

/* No name of it has a version, but the target of the link may have one. */
static void follow(struct found *f)
{
    char real[PATH_MAX];
    const char *name;

    if (!str_is_empty(f->version) || realpath(f->bin, real) == NULL)
        return;
    name = strrchr(real, '/');
    if (!version_of(name + 1, f->version, sizeof(f->version)) && strncmp(name, "/node", 5) == 0)
        read_node_version(real, f);
}

static void put_runtimes(struct json_out *o, const char *key, const struct dirs *dirs,
                         const char *const *names)
{
    struct found *found = xcalloc(FOUND_MAX, sizeof(*found));
    size_t count = 0;

    find_names(dirs, names, found, &count);
    json_begin_arr(o, key);
    for (size_t i = 0; i < count; i++) {
        follow(&found[i]);
        json_begin_obj(o, NULL);
        json_put_str(o, "ver", str_is_empty(found[i].version) ? NULL : found[i].version);
        json_put_str(o, "bin", found[i].bin);
        json_begin_arr(o, "alias");
        for (size_t n = 0; n < found[i].name_count; n++)
            json_put_str(o, NULL, found[i].names[n]);
        json_end(o);
        json_end(o);
    }
    json_end(o);
    free(found);
}

/* --- all of it --- */

static void put_utils(struct json_out *o, const struct dirs *dirs)
{
    const char *open = NULL;

    json_begin_arr(o, "utils");
    for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
        if (!has_tool(dirs, tools[i].name))
            continue;
        if (open == NULL || strcmp(open, tools[i].category) != 0) {
            if (open != NULL) {
                json_end(o);
                json_end(o);
            }
            open = tools[i].category;
            json_begin_obj(o, NULL);
            json_put_str(o, "category", open);
            json_begin_arr(o, "tools");
        }
        json_begin_obj(o, NULL);
        json_put_str(o, "name", tools[i].name);
        json_put_str(o, "description", tools[i].description);
        json_end(o);
    }
    if (open != NULL) {
        json_end(o);
        json_end(o);
    }
    json_end(o);
}

void about_put_programs(struct json_out *o, const char *path)
{
    static const char *const python[] = {"python3",    "python3.8",  "python3.9",  "python3.10",
                                         "python3.11", "python3.12", "python3.13", "python3.14",
                                         "python3.15", "python",     NULL};
    static const char *const nodejs[] = {"node", "nodejs", NULL};
    struct dirs *dirs = xcalloc(1, sizeof(*dirs));

    split_path(path, dirs);
    json_begin_obj(o, "runtime");
    put_runtimes(o, "python", dirs, python);
    put_runtimes(o, "nodejs", dirs, nodejs);
    json_end(o);
    put_utils(o, dirs);
    free(dirs);
}
