/* The credentials for a registry, from config.json files as Docker's client writes them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/base64.h"
#include "tests/lib/unit.h"

#define HEADER "X-Registry-Auth: "

/* The JSON in the header, "" when there is none, or the error. */
static const char *auth_for(const char *file, const char *image)
{
    static char text[512];
    char path[] = "/tmp/sandpool-auth-XXXXXX";
    int fd = mkstemp(path);
    struct err err = {.msg = ""};
    struct buf header;
    struct buf json;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, file, strlen(file)), (ssize_t) strlen(file));
    (void) close(fd);
    buf_init(&header, 64 * 1024);
    buf_init(&json, 64 * 1024);
    if (docker_auth_read(path, image, &header, &err) != SP_OK) {
        assert_int_equal(err.code, SP_CONFIG);
        assert_int_equal(header.len, 0);
        (void) snprintf(text, sizeof(text), "%s", err.msg);
    } else if (header.len == 0) {
        text[0] = '\0';
    } else {
        assert_int_equal(strncmp(buf_str(&header), HEADER, strlen(HEADER)), 0);
        assert_null(strpbrk(buf_str(&header) + strlen(HEADER), "+/ "));
        assert_true(
            base64_decode(buf_str(&header) + strlen(HEADER), header.len - strlen(HEADER), &json));
        (void) snprintf(text, sizeof(text), "%s", buf_str(&json));
    }
    buf_fini(&header);
    buf_fini(&json);
    (void) unlink(path);
    return text;
}

static void test_password(void **state)
{
    (void) state;
    /* ann:s3:cret?>~ */
    const char *file = "{\"auths\":{\"ghcr.io\":{\"auth\":\"YW5uOnMzOmNyZXQ/Pn4=\"}}}";

    assert_string_equal(auth_for(file, "ghcr.io/a/b:1"),
                        "{\"username\":\"ann\",\"password\":\"s3:cret?>~\",\"serveraddress\":"
                        "\"ghcr.io\"}");
    assert_string_equal(auth_for(file, "quay.io/a/b:1"), "");
    assert_string_equal(auth_for(file, "a/b"), "");
    assert_string_equal(auth_for(file, "debian:12"), "");
}

static void test_usual_registry(void **state)
{
    (void) state;
    const char *file = "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"YTpi\"},"
                       "\"localhost:5000\":{\"auth\":\"Yzpk\"}}}";

    assert_non_null(strstr(auth_for(file, "debian:12"), "\"username\":\"a\""));
    assert_non_null(strstr(auth_for(file, "someone/image"), "\"username\":\"a\""));
    assert_non_null(strstr(auth_for(file, "localhost:5000/x"), "\"username\":\"c\""));
    assert_string_equal(auth_for(file, "localhost/x"), "");
}

static void test_token(void **state)
{
    (void) state;
    const char *file = "{\"auths\":{\"r.io\":{\"auth\":\"YTpi\",\"identitytoken\":\"tok\"}}}";

    assert_string_equal(auth_for(file, "r.io/x"),
                        "{\"identitytoken\":\"tok\",\"serveraddress\":\"r.io\"}");
}

static void test_what_cannot_be_used(void **state)
{
    (void) state;
    struct buf out;
    struct err err;

    assert_non_null(strstr(auth_for("{\"credHelpers\":{\"r.io\":\"gcloud\"}}", "r.io/x"),
                           "credential helper 'gcloud'"));
    assert_non_null(
        strstr(auth_for("{\"auths\":{\"r.io\":{}},\"credsStore\":\"desktop\"}", "r.io/x"),
               "credential helper 'desktop'"));
    assert_non_null(strstr(auth_for("{\"auths\":{\"r.io\":{\"auth\":\"c2VjcmV0\"}}}", "r.io/x"),
                           "no readable"));
    assert_null(
        strstr(auth_for("{\"auths\":{\"r.io\":{\"auth\":\"c2VjcmV0\"}}}", "r.io/x"), "secret"));
    assert_non_null(strstr(auth_for("not json", "r.io/x"), "not a JSON object"));
    assert_non_null(strstr(auth_for("[]", "r.io/x"), "not a JSON object"));
    buf_init(&out, 1024);
    assert_int_equal(docker_auth_read("/nowhere/auth.json", "x", &out, &err), SP_CONFIG);
    assert_int_equal(docker_auth_read("/tmp", "x", &out, &err), SP_CONFIG);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_password),
        cmocka_unit_test(test_usual_registry),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_what_cannot_be_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
