/* Published vectors, the ids that are made of them, and every way to cut the input. */
#include <string.h>

#include "base/compiler.h"
#include "base/sha256.h"
#include "base/str.h"
#include "tests/lib/unit.h"

static void hash_hex(char ret_hex[65], const void *data, size_t len)
{
    struct sha256 s;
    unsigned char digest[32];

    sha256_init(&s);
    sha256_add(&s, data, len);
    sha256_end(&s, digest);
    str_hex(ret_hex, digest, sizeof(digest));
}

static void test_vectors(void **state)
{
    static const struct {
        const char *text;
        const char *hex;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "mnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char hex[65];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        hash_hex(hex, vectors[i].text, strlen(vectors[i].text));
        assert_string_equal(hex, vectors[i].hex);
    }
}

/* With the processor's own instructions, where it has them, and without. */
static void test_both_ways(void **state)
{
    struct sha256 s;
    unsigned char plain[32];
    unsigned char fast[32];
    char text[1000];

    (void) state;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char) (i * i * 7 + i);
    for (size_t len = 0; len <= sizeof(text); len++) {
        if (!sha256_init_plain(&s))
            skip();
        sha256_add(&s, text, len / 3);
        sha256_add(&s, text + len / 3, len - len / 3);
        sha256_end(&s, plain);
        sha256_init(&s);
        sha256_add(&s, text, len);
        sha256_end(&s, fast);
        assert_memory_equal(plain, fast, sizeof(plain));
    }
}

static void test_million(void **state)
{
    struct sha256 s;
    unsigned char digest[32];
    char block[1000];
    char hex[65];

    (void) state;
    memset(block, 'a', sizeof(block));
    sha256_init(&s);
    for (int i = 0; i < 1000; i++)
        sha256_add(&s, block, sizeof(block));
    sha256_end(&s, digest);
    str_hex(hex, digest, sizeof(digest));
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The first 16 digits are the id of a sandbox: clients compute the same. */
static void test_sandbox_ids(void **state)
{
    char hex[65];

    (void) state;
    hash_hex(hex, "default:thread-1", 16);
    hex[16] = '\0';
    assert_string_equal(hex, "fe0dc8182dec7b77");
    hash_hex(hex, "alice:thread-42", 15);
    hex[16] = '\0';
    assert_string_equal(hex, "81fe92a7340db695");
}

static void test_any_cut(void **state)
{
    unsigned char data[200];
    unsigned char whole[32];

    (void) state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char) (i * 7);
    for (size_t len = 0; len <= sizeof(data); len++) {
        struct sha256 s;

        sha256_init(&s);
        sha256_add(&s, data, len);
        sha256_end(&s, whole);
        for (size_t cut = 0; cut <= len; cut += 13) {
            unsigned char digest[32];

            sha256_init(&s);
            sha256_add(&s, data, cut);
            sha256_add(&s, data + cut, len - cut);
            sha256_end(&s, digest);
            assert_memory_equal(digest, whole, sizeof(whole));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),   cmocka_unit_test(test_million),
        cmocka_unit_test(test_both_ways), cmocka_unit_test(test_sandbox_ids),
        cmocka_unit_test(test_any_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
