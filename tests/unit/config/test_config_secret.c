/* Keys in files of their own: what is taken, what is refused, and that none of it is shown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "tests/lib/unit.h"

enum { CAP = 9 };

static char path[] = "/tmp/test_config_secret.XXXXXX";
static char key[CAP];

static int make_file(void **state)
{
    int fd = mkstemp(path);

    (void) state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void) state;
    return unlink(path);
}

static const char *read_text(const char *text, struct err *err)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return config_read_secret("a.key_file", path, 3, key, sizeof(key), err) == SP_OK ? key : NULL;
}

static void test_good(void **state)
{
    static const char *const texts[] = {"abc12345", "abc12345\n", "abc12345\r\n",
                                        "abc12345\nand what somebody wrote behind it\n"};
    struct err err;

    (void) state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_string_equal(read_text(texts[i], &err), "abc12345");
    assert_string_equal(read_text("abc", &err), "abc");
}

static void test_bad(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"", "a.key_file: the key must have at least 3 characters"},
        {"\nabc", "a.key_file: the key must have at least 3 characters"},
        {"zq", "a.key_file: the key must have at least 3 characters"},
        {"zq zq", "a.key_file: the key may only have printable characters without spaces"},
        {"zq\tzq", "a.key_file: the key may only have printable characters without spaces"},
        {"zq\xc3\xa4", "a.key_file: the key may only have printable characters without spaces"},
        {"zqzqzqzqz", "a.key_file: the key is longer than 8 bytes"},
    };
    struct err err;

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_null(read_text(cases[i].text, &err));
        assert_int_equal(err.code, SP_CONFIG);
        assert_string_equal(err.msg, cases[i].why);
    }
}

static void test_no_file(void **state)
{
    char name[sizeof(path) + 8];
    struct err err;

    (void) state;
    assert_int_equal(config_read_secret("a.key_file", "/nowhere/k", 3, key, CAP, &err), SP_CONFIG);
    assert_non_null(strstr(err.msg, "a.key_file '/nowhere/k'"));
    assert_int_equal(config_read_secret("a.key_file", "/", 3, key, CAP, &err), SP_CONFIG);
    assert_string_equal(err.msg, "a.key_file '/' is not a file");
    (void) snprintf(name, sizeof(name), "%s.pipe", path);
    assert_int_equal(mkfifo(name, 0600), 0); /* nobody writes to it: reading must not wait */
    assert_int_equal(config_read_secret("a.key_file", name, 3, key, CAP, &err), SP_CONFIG);
    assert_non_null(strstr(err.msg, "is not a file"));
    assert_int_equal(unlink(name), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_no_file),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
