/* test_hide.c - messages without where on the host something is. */
#include <string.h>

#include "base/compiler.h"
#include "base/hide.h"
#include "tests/lib/unit.h"

static void test_paths(void **state UNUSED)
{
    static const struct {
        const char *text;
        const char *shown;
    } cases[] = {
        {"rename '/var/lib/sandpool/oci/snapshots/0a/flat': No space left on device",
         "rename '…/flat': No space left on device"},
        {"/usr/sbin/runc failed with status 1", "…/runc failed with status 1"},
        {"open \"/srv/my boxes/disk\": no", "open \"…/disk\": no"},
        {"12 MB are free in /var/lib/sandpool, 64 MB have to stay free",
         "12 MB are free in …/sandpool, 64 MB have to stay free"},
        {"directory /var/lib/sandpool/", "directory …/sandpool/"},
        {"a path that is cut '/var/lib/sand", "a path that is cut '…/sand"},
        {"dir=/run/x/y:/run/z/w", "dir=…/y:…/w"},
        {"(/sys/fs/cgroup/a)", "(…/a)"},
        {"'/tmp' is a file", "'/tmp' is a file"},
        {"http://127.0.0.1:80/v1/sandbox did not answer",
         "http://127.0.0.1:80/v1/sandbox did not answer"},
        {"GET /v1/sandboxes/a/exec", "GET /v1/sandboxes/a/exec"},
        {"and/or 3/4/5 //x/y / ''", "and/or 3/4/5 //x/y / ''"},
        {"", ""},
        {"/", "/"},
        {"//", "//"},
        {"'/a/b/c", "'…/c"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf out;

        buf_init(&out, 1024);
        hide_paths(&out, cases[i].text, strlen(cases[i].text));
        assert_string_equal(buf_str(&out), cases[i].shown);
        buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_paths)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
