/* Opening paths that lead into the kernel's own files, by openat2(2) and by the walk that replaces
 * it on kernels without it. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "agent/core/plain_walk.h"
#include "tests/lib/unit.h"

static char dir[64];

static bool is_process(int fd)
{
    char path[64];
    char name[256] = "";

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    (void) !readlink(path, name, sizeof(name) - 1);
    return strncmp(name, "/proc/", 6) == 0 && name[6] >= '0' && name[6] <= '9';
}

static int by_walk(int at, const char *path, int flags, mode_t mode)
{
    return plain_walk_open(at, path, flags, mode, is_process);
}

static int (*const ways[])(int at, const char *path, int flags, mode_t mode) = {plain_open,
                                                                                by_walk};

static void make_link(const char *target, const char *name)
{
    char path[128];

    (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(symlink(target, path), 0);
}

static int set_up(void **state)
{
    char path[96];

    (void) state;
    (void) snprintf(dir, sizeof(dir), "/tmp/sandpool-plain-%d", (int) getpid());
    (void) snprintf(path, sizeof(path), "%s/sub", dir);
    if (mkdir(dir, 0700) != 0 || mkdir(path, 0700) != 0)
        return -1;
    make_link("sub", "relative");
    make_link("relative/../sub/", "longer");
    make_link("loop", "loop");
    make_link("nothing", "dangling");
    make_link("/proc/self/exe", "exe");
    make_link("/proc/self", "self");
    make_link("/proc/meminfo", "meminfo");
    make_link("/", "top");
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void) st;
    (void) kind;
    (void) at;
    return remove(path);
}

static int tear_down(void **state)
{
    (void) state;
    return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void check(const char *path, int flags, int sys)
{
    int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    for (size_t i = 0; i < 2; i++) {
        int fd;

        errno = 0;
        fd = ways[i](at, path, flags, 0600);
        if (fd < 0 && errno != sys)
            print_error("%s by way %zu: errno %d\n", path, i, errno);
        assert_int_equal(fd < 0 ? errno : 0, sys);
        if (fd >= 0)
            (void) close(fd);
    }
    (void) close(at);
}

static void test_ordinary_paths(void **state)
{
    (void) state;
    check(".", O_RDONLY | O_DIRECTORY, 0);
    check("/", O_RDONLY | O_DIRECTORY, 0);
    check("sub", O_PATH, 0);
    check("sub/", O_RDONLY, 0);
    check("relative", O_RDONLY, 0);
    check("longer/..//./sub", O_RDONLY, 0);
    check("top/etc/passwd", O_RDONLY, 0);
    check("meminfo", O_RDONLY, 0);
    check("/proc/cpuinfo", O_RDONLY, 0);
    check("relative/new", O_RDWR | O_CREAT, 0);
    check("relative/new", O_RDWR | O_CREAT | O_EXCL, EEXIST);
    check("relative/new", O_RDWR, 0);
    check("nothing", O_RDONLY, ENOENT);
    check("nothing/x", O_RDONLY, ENOENT);
    check("relative/new/x", O_RDONLY, ENOTDIR);
    check("", O_RDONLY, ENOENT);
    check("loop", O_RDONLY, ELOOP);
    check("loop/x", O_RDONLY, ELOOP);
    check("relative", O_RDONLY | O_NOFOLLOW, ELOOP);
    check("dangling", O_RDONLY, ENOENT);
}

static void test_links_of_the_kernel(void **state)
{
    static const char *const paths[] = {"exe",
                                        "self/exe",
                                        "/proc/self/exe",
                                        "/proc/self/cwd",
                                        "/proc/self/root",
                                        "/proc/self/root/etc/passwd",
                                        "top/proc/self/root/etc",
                                        "self/fd/0",
                                        "/proc/thread-self/fd/0",
                                        "self/ns/net"};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        check(paths[i], O_RDONLY, EPERM);
}

static void test_files_of_processes(void **state)
{
    struct stat st;

    (void) state;
    assert_int_equal(plain_open(AT_FDCWD, "/proc/self/maps", O_RDONLY, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(plain_open(AT_FDCWD, "/proc/1", O_PATH, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(plain_stat(AT_FDCWD, "/proc/self/status", &st), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(plain_open_file(AT_FDCWD, "/dev/null", O_RDONLY, 0, NULL), -1);
    assert_int_equal(errno, ENOTSUP);
    assert_int_equal(plain_open_file(AT_FDCWD, "/dev", O_RDONLY, 0, NULL), -1);
    assert_int_equal(errno, EISDIR);
    assert_int_equal(plain_open_device("/dev/zero", O_RDWR, 1, 3), -1);
    assert_int_equal(errno, ENODEV);
    assert_int_equal(plain_open_device("/etc/passwd", O_RDONLY, 1, 3), -1);
    assert_int_equal(errno, ENODEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordinary_paths),
        cmocka_unit_test(test_links_of_the_kernel),
        cmocka_unit_test(test_files_of_processes),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
