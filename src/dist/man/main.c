/* main.c - sandpool-man: writes the manual pages. It runs while the programs are built and is not installed.
 *
 *   sandpool-man DIRECTORY NAME.SECTION=FILE...
 *
 * FILE has what NAME prints for --help. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "dist/man/pages.h"

enum { PAGE_MAX = 1 << 20, PATH_LEN = 4096 };

static bool write_page(const char *directory, const char *name, struct buf *page)
{
    char path[PATH_LEN];
    int fd;
    bool ok;

    (void) snprintf(path, sizeof(path), "%s/%s", directory, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ok = fd >= 0 && !buf_failed(page) && file_write_all(fd, page->data, page->len) == 0;
    if (fd >= 0)
        ok = close(fd) == 0 && ok;
    if (!ok)
        (void) fprintf(stderr, "sandpool-man: %s: %s\n", path, strerror(errno));
    buf_fini(page);
    return ok;
}

static bool write_commands(const char *directory)
{
    struct buf page;

    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        char name[64];

        buf_init(&page, PAGE_MAX);
        man_command(c, &page);
        (void) snprintf(name, sizeof(name), "sandpool-%s.1", c->name);
        if (!write_page(directory, name, &page))
            return false;
    }
    buf_init(&page, PAGE_MAX);
    man_cli(&page);
    return write_page(directory, "sandpool.1", &page);
}

/* "sandpoold.8=help.txt" */
static bool write_program(const char *directory, const char *what)
{
    char file_name[64], name[64];
    const char *equal = strchr(what, '=');
    const char *dot = equal != NULL ? memrchr(what, '.', (size_t) (equal - what)) : NULL;
    struct buf help, page;
    bool ok = false;
    int fd;

    if (dot == NULL || !str_copy_n(file_name, sizeof(file_name), what, (size_t) (equal - what)) ||
        !str_copy_n(name, sizeof(name), what, (size_t) (dot - what)))
        return false;
    buf_init(&help, PAGE_MAX);
    fd = open(equal + 1, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && file_read_rest(fd, &help) == 0) {
        buf_init(&page, PAGE_MAX);
        man_program(name, (unsigned) (dot[1] - '0'), buf_str(&help), &page);
        ok = write_page(directory, file_name, &page);
    } else {
        (void) fprintf(stderr, "sandpool-man: %s cannot be read\n", equal + 1);
    }
    if (fd >= 0)
        (void) close(fd);
    buf_fini(&help);
    return ok;
}

int main(int argc, char **argv)
{
    struct buf page;

    if (argc < 2) {
        (void) fprintf(stderr, "usage: sandpool-man DIRECTORY NAME.SECTION=FILE...\n");
        return 2;
    }
    buf_init(&page, PAGE_MAX);
    man_config(&page);
    if (!write_page(argv[1], "sandpool.yaml.5", &page) || !write_commands(argv[1]))
        return 1;
    for (int i = 2; i < argc; i++) {
        if (!write_program(argv[1], argv[i]))
            return 1;
    }
    return 0;
}
