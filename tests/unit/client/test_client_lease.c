/* Acquire and release with typed arguments: what is sent, what is made of the answer. */
#include <string.h>

#include "base/compiler.h"
#include "tests/lib/unit.h"
#include "tests/unit/client/fixture.h"

static void test_lease(void **state)
{
    (void) state;
    static const struct step steps[] = {
        {.answer = OK_HEAD "Content-Length: 143\r\n\r\n"
                           "{\"sandbox_id\":\"fe0dc8182dec7b77\",\"generation\":3,\"sandbox_url\":"
                           "\"http://127.0.0.1:1\",\"token\":\"t\",\"source\":\"warm\",\"state\":"
                           "\"leased\",\"user_id\":null}"},
        {.answer = OK_HEAD "Content-Length: 2\r\n\r\n{}"},
        {.answer = OK_HEAD "Content-Length: 2\r\n\r\n{}"},
    };
    struct fixture f = start(steps, 3);
    struct sp_acquire a = {.thread_id = "thread-\"1\"",
                           .profile = "small",
                           .has_wait = true,
                           .wait_ms = 0,
                           .ttl_s = 60,
                           .metadata_json = "{\"k\":1}",
                           .envs = &(struct sp_env){"A", "1"},
                           .env_count = 1,
                           .mounts = &(struct sp_mount){"/srv", "/s", true},
                           .mount_count = 1,
                           .memory = 1024,
                           .cpus = 0.5,
                           .pids = 9};
    struct sp_lease lease;
    struct sp_failure failure = {0};

    if (sp_acquire(f.client, &a, &lease, &failure) != SP_OK)
        fail_msg("%s", failure.message);
    assert_string_equal(lease.sandbox_id, "fe0dc8182dec7b77");
    assert_int_equal(lease.generation, 3);
    assert_string_equal(lease.sandbox_url, "http://127.0.0.1:1");
    assert_string_equal(lease.token, "t");
    assert_string_equal(lease.source, "warm");
    assert_string_equal(lease.state, "leased");
    assert_int_equal(sp_release(f.client, lease.sandbox_id, 3, true, &failure), SP_OK);
    assert_int_equal(sp_acquire(f.client, &(struct sp_acquire){0}, &lease, &failure), SP_PROTOCOL);

    sp_client_free(f.client);
    script_server_stop(f.server);
    assert_non_null(strstr(script_server_request(f.server, 0), "POST /v1/acquire HTTP/1.1\r\n"));
    assert_non_null(
        strstr(script_server_request(f.server, 0),
               "{\"thread_id\":\"thread-\\\"1\\\"\",\"profile\":\"small\",\"wait_ms\":0,"
               "\"ttl_s\":60,\"metadata\":{\"k\":1},\"envs\":{\"A\":\"1\"},\"mounts\":[{"
               "\"host_path\":\"/srv\",\"container_path\":\"/s\",\"read_only\":true}],"
               "\"limits\":{\"memory\":1024,\"cpus\":0.5,\"pids\":9}}"));
    assert_non_null(strstr(script_server_request(f.server, 1),
                           "POST /v1/sandboxes/fe0dc8182dec7b77/release HTTP/1.1\r\n"));
    assert_non_null(strstr(script_server_request(f.server, 1),
                           "{\"generation\":3,\"destroy\":true,\"quick\":true}"));
    assert_non_null(strstr(script_server_request(f.server, 2), "\r\n\r\n{}"));
    script_server_free(f.server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lease)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
