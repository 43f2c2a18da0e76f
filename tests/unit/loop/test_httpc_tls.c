/* TLS: who is believed, who is refused and how that reads, and that settings never mix. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"
#include "tests/unit/loop/fake_names.h"
#include "tests/unit/loop/stream_call.h"

/* Of the whole program: making certificates takes a while. */
static struct {
    char dir[64];
    pid_t pid;
    int lifeline; /* the server ends when it is closed */
    unsigned port;
    unsigned strict_port; /* wants a certificate of the client */
} server;

static int start_server(void **state)
{
    int in[2];
    int out[2];
    char line[64] = "";
    size_t len = 0;

    if (set_up_process(state) != 0)
        return -1;
    tmpdir_make(server.dir);
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        return -1;
    server.pid = fork();
    if (server.pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) dup2(in[0], 0);
        (void) dup2(out[1], 1);
        execlp("python3", "python3", "-B", TLS_SERVER, server.dir, (char *) NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    server.lifeline = in[1];
    while (len < sizeof(line) - 1 && strchr(line, '\n') == NULL) {
        ssize_t n = read(out[0], line + len, sizeof(line) - 1 - len);

        if (n <= 0)
            break;
        len += (size_t) n;
    }
    close(out[0]);
    return sscanf(line, "%u %u", &server.port, &server.strict_port) == 2 ? 0 : -1;
}

static int stop_server(void **state)
{
    (void) state;
    close(server.lifeline);
    (void) waitpid(server.pid, NULL, 0);
    tmpdir_remove(server.dir);
    return 0;
}

/* --- calls --- */

/* Paths of files in the server's directory; NULL stays NULL. */
struct files {
    struct httpc_tls tls;
    char ca[100];
    char cert[100];
    char key[100];
};

static const char *place(char path[100], const char *name)
{
    snprintf(path, 100, "%s/%s", server.dir, name != NULL ? name : "");
    return name != NULL ? path : NULL;
}

static void set_files(struct files *f, const char *ca, const char *cert, const char *key)
{
    f->tls.ca_file = place(f->ca, ca);
    f->tls.cert_file = place(f->cert, cert);
    f->tls.key_file = place(f->key, key);
}

static void prepare(struct fixture *f, struct call *call, const struct files *files, unsigned port)
{
    prepare_call(f, call, "/");
    snprintf(call->url, sizeof(call->url), "https://127.0.0.1:%u/", port);
    call->http.tls = &files->tls;
    call->done = 0;
}

static void assert_says(struct fixture *f, const struct files *files, unsigned port,
                        const char *text)
{
    struct call call = {0};

    prepare(f, &call, files, port);
    if (run_call(&call) != SP_OK)
        fail_msg("%s", call.http.op.err.msg);
    assert_string_equal(buf_str(&call.http.response), text);
    httpc_request_fini(&call.http);
}

static void assert_refused(struct fixture *f, const struct files *files, unsigned port,
                           const char *text)
{
    struct call call = {0};

    prepare(f, &call, files, port);
    assert_int_equal(run_call(&call), SP_CONNECT_FAILED);
    if (strstr(call.http.op.err.msg, text) == NULL)
        fail_msg("'%s' does not say '%s'", call.http.op.err.msg, text);
}

/* --- who is believed --- */

static void test_server_certificate(void **state)
{
    struct fixture *f = *state;
    struct files files;
    struct call call = {0};

    set_files(&files, "authority.pem", NULL, NULL);
    assert_says(f, &files, server.port, "nobody asks for None");
    set_files(&files, NULL, NULL, NULL); /* the system's authorities do not know it */
    assert_refused(f, &files, server.port, "the server's certificate is not accepted");
    set_files(&files, "stranger.pem", NULL, NULL);
    assert_refused(f, &files, server.port, "the server's certificate is not accepted");
    set_files(&files, "authority.pem", NULL, NULL);
    prepare(f, &call, &files, server.port);
    snprintf(call.url, sizeof(call.url), "https://localhost:%u/", server.port);
    assert_int_equal(run_call(&call), SP_CONNECT_FAILED); /* a name it does not have */
    assert_non_null(strstr(call.http.op.err.msg, "the server's certificate is not accepted"));
    call.http.tls = NULL;
    snprintf(call.url, sizeof(call.url), "https://127.0.0.1:%u/", server.port);
    assert_int_equal(run_call(&call), SP_CONNECT_FAILED);
}

static void test_name_and_certificate(void **state)
{
    struct fixture *f = *state;
    struct files files;
    struct call call = {0};

    set_files(&files, "authority.pem", NULL, NULL);
    prepare(f, &call, &files, server.port);
    snprintf(call.url, sizeof(call.url), "https://one.test:%u/", server.port);
    assert_int_equal(run_call(&call), SP_OK);
    assert_string_equal(buf_str(&call.http.response), "nobody asks for one.test");
    snprintf(call.url, sizeof(call.url), "https://uno.test:%u/", server.port);
    assert_int_equal(run_call(&call), SP_CONNECT_FAILED); /* same place, another name */
    assert_non_null(strstr(call.http.op.err.msg, "the server's certificate is not accepted"));
    httpc_request_fini(&call.http);
}

static void test_client_certificate(void **state)
{
    struct fixture *f = *state;
    struct files files;

    set_files(&files, "authority.pem", "client.pem", "client.key");
    assert_says(f, &files, server.strict_port, "client asks for None");
    set_files(&files, "authority.pem", NULL, NULL);
    assert_refused(f, &files, server.strict_port, "the server does not accept the client's");
    set_files(&files, "authority.pem", "forged.pem", "forged.key");
    assert_refused(f, &files, server.strict_port, "the server does not accept the client's");
}

static void test_bad_files(void **state)
{
    static const char *const bad[][4] = {
        {"missing.pem", NULL, NULL, "the file of authorities' certificates"},
        {"client.key", NULL, NULL, "the file of authorities' certificates"},
        {"authority.pem", "missing.pem", "client.key", "the client's certificate or its key"},
        {"authority.pem", "client.pem", "missing.key", "the client's certificate or its key"},
        {"authority.pem", "client.pem", "forged.key", "the client's certificate or its key"},
        {"authority.pem", "client.pem", NULL, "the client's certificate or its key"},
        {"authority.pem", "client.pem", "locked.key", "the client's certificate or its key"}};
    struct fixture *f = *state;
    struct files files;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        set_files(&files, bad[i][0], bad[i][1], bad[i][2]);
        assert_refused(f, &files, server.port, bad[i][3]);
    }
}

static void test_no_tls_there(void **state)
{
    struct fixture *f = *state;
    struct files files;

    set_files(&files, "authority.pem", NULL, NULL);
    assert_refused(f, &files, f->server.port, "SSL"); /* it waits for the end of a line */
    assert_refused(f, &files, bad_server_free_port(), "connect");
}

/* Connections are kept open, and each is only used with the settings it was made with. */
static void test_settings_do_not_mix(void **state)
{
    struct fixture *f = *state;
    struct files with;
    struct files without;
    struct files stranger;

    set_files(&with, "authority.pem", "client.pem", "client.key");
    set_files(&without, "authority.pem", NULL, NULL);
    set_files(&stranger, "stranger.pem", NULL, NULL);
    for (int i = 0; i < 3; i++) {
        assert_says(f, &with, server.port, "client asks for None");
        assert_says(f, &without, server.port, "nobody asks for None");
        assert_refused(f, &stranger, server.port, "the server's certificate is not accepted");
    }
}

/* --- streams --- */

static void test_streams(void **state)
{
    enum { SIZE = 16 };
    struct fixture *f = *state;
    struct files files;
    struct stream down = {.is_pausing = true};
    struct stream up = {0};
    char text[40];

    set_files(&files, "authority.pem", NULL, NULL);
    prepare(f, &down.call, &files, server.port);
    snprintf(down.call.url, sizeof(down.call.url), "https://127.0.0.1:%u/flow/%d", server.port,
             SIZE);
    down.call.http.on_data = stream_on_data;
    stream_prepare_up(f, &up, "/", SIZE * MIB);
    up.call.http.body_size = SIZE * MIB;
    up.call.http.tls = &files.tls;
    snprintf(up.call.url, sizeof(up.call.url), "https://127.0.0.1:%u/", server.port);
    start_call(&down.call, 60000);
    start_call(&up.call, 60000);
    stream_push(&up.call.http);
    loop_run(&f->loop);
    assert_int_equal(down.got, SIZE * MIB);
    stream_assert_answer(&down, 200, "");
    snprintf(text, sizeof(text), "%d", SIZE * MIB);
    stream_assert_answer(&up, 200, text);
}

#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS_TEST(test_server_certificate),
        TLS_TEST(test_name_and_certificate),
        TLS_TEST(test_client_certificate),
        TLS_TEST(test_bad_files),
        TLS_TEST(test_no_tls_there),
        TLS_TEST(test_settings_do_not_mix),
        TLS_TEST(test_streams),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
