/* test_http_listen.c - where a server listens, and what it refuses to listen on. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"
#include "fixture.h"

static char other[128]; /* a second path in the fixture's directory */

static int setup(void **state)
{
    (void) state;
    fixture_start(&fx, NULL);
    (void) snprintf(other, sizeof(other), "%s/other", fx.dir);
    return 0;
}

static int listen_other(unsigned mode, struct err *err)
{
    return http_server_listen_unix(fx.server, other, mode, UINT32_MAX, err);
}

static void test_modes(void **state)
{
    struct err err;
    struct stat st;
    mode_t mask = umask(022);

    (void) state;
    assert_int_equal(listen_other(0660, &err), SP_OK);
    assert_int_equal(stat(other, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    assert_int_equal(stat(fx.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(umask(mask), 022); /* as it was */
}

static void test_group(void **state)
{
    struct err err;
    struct stat st;
    uint32_t gid = geteuid() == 0 ? 12345 : getegid();

    (void) state;
    assert_int_equal(http_server_listen_unix(fx.server, other, 0660, gid, &err), SP_OK);
    assert_int_equal(stat(other, &st), 0);
    assert_int_equal(st.st_gid, gid);
}

static void test_somebody_answers(void **state)
{
    struct err err;
    struct client c;

    (void) state;
    assert_int_equal(http_server_listen_unix(fx.server, fx.path, 0600, UINT32_MAX, &err),
                     SP_LOCKED);
    assert_non_null(strstr(err.msg, "another daemon answers on"));
    client_open(&c, &fx); /* and it still does */
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&c);
}

static void leave_stale_socket(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_true(str_copy(addr.sun_path, sizeof(addr.sun_path), other));
    assert_int_equal(bind(fd, (struct sockaddr *) &addr, sizeof(addr)), 0);
    assert_int_equal(close(fd), 0);
}

static void test_stale_socket(void **state)
{
    struct err err;
    struct client c;
    char path[100];

    (void) state;
    leave_stale_socket();
    assert_int_equal(listen_other(0600, &err), SP_OK);
    memcpy(path, fx.path, sizeof(path));
    assert_true(str_copy(fx.path, sizeof(fx.path), other));
    client_open(&c, &fx);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&c);
    memcpy(fx.path, path, sizeof(path));
}

/* Whatever is no socket stays, even a link to one. */
static void test_file_in_the_way(void **state)
{
    struct err err;
    struct stat st;
    int fd = open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    (void) state;
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(listen_other(0600, &err), SP_CONFIG);
    assert_int_equal(lstat(other, &st), 0);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(symlink("nowhere", other), 0);
    assert_int_equal(listen_other(0600, &err), SP_CONFIG);
    assert_int_equal(unlink(other), 0);
}

static void test_bad_paths(void **state)
{
    struct err err;
    char longest[120];

    (void) state;
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    memcpy(longest, "/tmp/", 5);
    assert_int_equal(http_server_listen_unix(fx.server, longest, 0600, UINT32_MAX, &err),
                     SP_CONFIG);
    longest[108] = '\0'; /* one too many */
    assert_int_equal(http_server_listen_unix(fx.server, longest, 0600, UINT32_MAX, &err),
                     SP_CONFIG);
    assert_int_equal(http_server_listen_unix(fx.server, "", 0600, UINT32_MAX, &err), SP_CONFIG);
    assert_int_equal(http_server_listen_unix(fx.server, "/nowhere/s", 0600, UINT32_MAX, &err),
                     SP_IO);
    assert_non_null(strstr(err.msg, "/nowhere/s"));
}

/* A successor has put its own socket there: it is not ours to remove. */
static void test_successors_socket_stays(void **state)
{
    struct stat st;

    (void) state;
    fixture_start(&fx, NULL);
    (void) snprintf(other, sizeof(other), "%s", fx.path);
    assert_int_equal(unlink(other), 0);
    leave_stale_socket();
    http_server_stop(fx.server);
    fixture_run_ms(&fx, 20);
    assert_int_equal(lstat(other, &st), 0);
    assert_int_equal(unlink(other), 0);
    fixture_stop(&fx);
}

static int connect_tcp(int family, int port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t) port)};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r;

    assert_true(fd >= 0);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v6.sin6_addr = in6addr_loopback;
    if (family == AF_INET)
        r = connect(fd, (struct sockaddr *) &v4, sizeof(v4));
    else
        r = connect(fd, (struct sockaddr *) &v6, sizeof(v6));
    assert_int_equal(r, 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void check_tcp(const char *address, int family, const char *peer)
{
    struct err err;
    struct client c;
    int port = 0;

    assert_int_equal(http_server_listen_tcp(fx.server, address, &port, &err), SP_OK);
    assert_in_range(port, 1, 65535);
    client_open_fd(&c, &fx, connect_tcp(family, port));
    client_expect(&c, "POST /echo HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", 200);
    client_expect(&c, "POST /small HTTP/1.1\r\nContent-Length: 100000\r\n\r\nmuch", 413);
    client_wait_eof(&c);
    assert_false(c.is_reset);
    client_close(&c);
    assert_true(fx.peer.is_tcp);
    assert_int_equal(fx.peer.uid, UINT32_MAX); /* not root by accident */
    assert_memory_equal(fx.peer.address, peer, strlen(peer));
}

static void test_tcp(void **state)
{
    struct err err;
    int port;

    (void) state;
    check_tcp("127.0.0.1:0", AF_INET, "127.0.0.1:");
    check_tcp("localhost:0", AF_INET, "127.0.0.1:");
    if (access("/proc/sys/net/ipv6", F_OK) == 0)
        check_tcp("[::1]:0", AF_INET6, "[::1]:");
    assert_int_equal(http_server_listen_tcp(fx.server, "example.com:80", &port, &err), SP_CONFIG);
    assert_int_equal(http_server_listen_tcp(fx.server, "127.0.0.1", &port, &err), SP_CONFIG);
    assert_int_equal(http_server_listen_tcp(fx.server, "127.0.0.1:99999", &port, &err), SP_CONFIG);
    assert_int_equal(http_server_listen_tcp(fx.server, "127.0.0.1:x", &port, &err), SP_CONFIG);
}

static void test_given_socket(void **state)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char path[100];
    struct client c;
    struct err err;

    (void) state;
    assert_true(str_copy(addr.sun_path, sizeof(addr.sun_path), other));
    assert_int_equal(bind(fd, (struct sockaddr *) &addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 10), 0);
    assert_int_equal(http_server_listen_fd(fx.server, fd, &err), SP_OK);
    memcpy(path, fx.path, sizeof(path));
    assert_true(str_copy(fx.path, sizeof(fx.path), other));
    client_open(&c, &fx);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&c);
    memcpy(fx.path, path, sizeof(path));
    http_server_stop(fx.server);
    fixture_run_ms(&fx, 10);
    assert_int_equal(unlink(other), 0); /* it was not bound here, so it is still there */
    assert_int_equal(http_server_connections(fx.server), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_modes),
        TEST(test_group),
        TEST(test_somebody_answers),
        TEST(test_stale_socket),
        TEST(test_file_in_the_way),
        TEST(test_bad_paths),
        cmocka_unit_test(test_successors_socket_stays),
        TEST(test_tcp),
        TEST(test_given_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
