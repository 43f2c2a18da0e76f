/* How engines are named: one key for all names of one engine, what outlives this machine, the files of
 * TLS. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/str.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"

static struct config_profile named(const char *host)
{
    struct config_profile p = {.name = "a"};

    str_copy_cut(p.docker.host, sizeof(p.docker.host), host);
    return p;
}

static const char *key_of(const char *host)
{
    static char key[BACKEND_KEY_MAX + 1];
    struct config_profile p = named(host);

    docker_put_key(&p, key, sizeof(key));
    return key;
}

static int forget_env(void **state)
{
    (void) state;
    (void) unsetenv("DOCKER_HOST");
    (void) unsetenv("DOCKER_TLS_VERIFY");
    (void) unsetenv("DOCKER_CERT_PATH");
    return 0;
}

static void test_keys(void **state)
{
    char dir[TMPDIR_LEN];
    char link[TMPDIR_LEN + 8];
    char host[96];
    char want[96];

    (void) state;
    tmpdir_make(dir);
    (void) snprintf(link, sizeof(link), "%s.link", dir);
    assert_int_equal(symlink(dir, link), 0);
    (void) snprintf(want, sizeof(want), "docker:unix://%s/socket", dir);
    (void) snprintf(host, sizeof(host), "unix://%s/socket", link);
    assert_string_equal(key_of(host), want); /* the socket need not be there */
    assert_int_equal(setenv("DOCKER_HOST", host, 1), 0);
    assert_string_equal(key_of(""), want);
    assert_string_equal(key_of("tcp://a:1"), "docker:tcp://a:1");
    (void) unlink(link);
    tmpdir_remove(dir);
    (void) unsetenv("DOCKER_HOST");
    assert_non_null(strstr(key_of(""), "/docker.sock"));
    assert_string_equal(key_of("unix:///nowhere/at/all"), "docker:unix:///nowhere/at/all");
}

static void test_usual_ports(void **state)
{
    (void) state;
    assert_string_equal(key_of("tcp://box.example"), "docker:tcp://box.example:2375");
    assert_string_equal(key_of("tcp://[::1]"), "docker:tcp://[::1]:2375");
    assert_string_equal(key_of("tcp://[::1]:99"), "docker:tcp://[::1]:99");
    assert_int_equal(setenv("DOCKER_TLS_VERIFY", "1", 1), 0);
    assert_string_equal(key_of("tcp://box.example"), "docker:tcp://box.example:2376");
}

static void test_what_outlives_us(void **state)
{
    struct docker *d = test_calloc(1, sizeof(*d));
    struct config_profile p = named("unix:///run/x.sock");

    (void) state;
    assert_int_equal(docker_take_address(d, &p, NULL), SP_OK);
    assert_false(d->base.is_elsewhere);
    assert_string_equal(d->socket, "/run/x.sock");
    p = named("tcp://10.0.0.1:2375");
    assert_int_equal(docker_take_address(d, &p, NULL), SP_OK);
    assert_true(d->base.is_elsewhere);
    assert_false(d->is_tls);
    assert_string_equal(d->url, "http://10.0.0.1:2375");
    test_free(d);
}

static void test_tls_files(void **state)
{
    struct docker *d = test_calloc(1, sizeof(*d));
    struct config_profile p = named("tcp://a:1");
    char dir[TMPDIR_LEN];
    char path[TMPDIR_LEN + 8];
    int fd;

    (void) state;
    tmpdir_make(dir);
    (void) snprintf(path, sizeof(path), "%s/ca.pem", dir);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    (void) close(fd);
    assert_int_equal(setenv("DOCKER_TLS_VERIFY", "1", 1), 0);
    assert_int_equal(setenv("DOCKER_CERT_PATH", dir, 1), 0);
    assert_int_equal(docker_take_address(d, &p, NULL), SP_OK);
    assert_true(d->is_tls);
    assert_string_equal(d->url, "https://a:1");
    assert_string_equal(d->tls.ca_file, path);
    assert_null(d->tls.cert_file); /* not there, so not shown */
    tmpdir_remove(dir);
    memset(d, 0, sizeof(*d));
    str_copy_cut(p.docker.tls_ca, sizeof(p.docker.tls_ca), "/x/ca");
    str_copy_cut(p.docker.tls_cert, sizeof(p.docker.tls_cert), "/x/cert");
    assert_int_equal(docker_take_address(d, &p, NULL), SP_CONFIG);
    str_copy_cut(p.docker.tls_key, sizeof(p.docker.tls_key), "/x/key");
    assert_int_equal(docker_take_address(d, &p, NULL), SP_OK); /* before the environment's */
    assert_string_equal(d->tls.ca_file, "/x/ca");
    assert_string_equal(d->tls.key_file, "/x/key");
    test_free(d);
}

static void test_bad(void **state)
{
    static const char *const bad[] = {"/run/docker.sock", "ssh://a", "unix://x", "tcp://a:1/b",
                                      "tcp://u@a:1"};
    struct docker *d = test_calloc(1, sizeof(*d));

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct config_profile p = named(bad[i]);

        assert_int_equal(docker_take_address(d, &p, NULL), SP_CONFIG);
    }
    test_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keys, forget_env, forget_env),
        cmocka_unit_test_setup_teardown(test_usual_ports, forget_env, forget_env),
        cmocka_unit_test_setup_teardown(test_what_outlives_us, forget_env, forget_env),
        cmocka_unit_test_setup_teardown(test_tls_files, forget_env, forget_env),
        cmocka_unit_test_setup_teardown(test_bad, forget_env, forget_env),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
