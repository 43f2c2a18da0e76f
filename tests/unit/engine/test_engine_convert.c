/* test_engine_convert.c - what a backend says of a box, in the words of the pool: nothing is cut. */
#include <string.h>

#include "engine/internal.h"
#include "tests/lib/unit.h"

static void fill(char *dst, size_t len)
{
    memset(dst, 'a', len);
    dst[len] = '\0';
}

static void test_longest_id(void **state UNUSED)
{
    struct backend_box box = {.labels = {.box_id = 7, .generation = 3}};
    struct pool_seen seen;

    fill(box.labels.sandbox_id, POOL_ID_MAX);
    fill(box.labels.profile, POOL_NAME_MAX);
    fill(box.labels.user, BACKEND_LABEL_MAX);
    fill(box.labels.thread, BACKEND_LABEL_MAX);
    fill(box.url, BACKEND_URL_MAX);
    fill(box.ref, BACKEND_REF_MAX);
    fill(box.token, BACKEND_TOKEN_MAX);
    fill(box.life, BACKEND_LIFE_MAX);
    assert_true(seen_from_backend(&box, &seen));
    assert_int_equal(seen.id.v, 7);
    assert_string_equal(seen.sandbox_id, box.labels.sandbox_id);
    assert_string_equal(seen.profile, box.labels.profile);
    assert_string_equal(seen.user, box.labels.user);
    assert_string_equal(seen.thread, box.labels.thread);
    assert_string_equal(seen.url, box.url);
    assert_string_equal(seen.ref, box.ref);
    assert_string_equal(seen.token, box.token);
    assert_string_equal(seen.life, box.life);
}

/* Cut, it would be the id of somebody else. */
static void test_id_is_not_cut(void **state UNUSED)
{
    struct backend_box box = {.labels = {.box_id = 7}};
    struct pool_seen seen;

    fill(box.labels.sandbox_id, POOL_ID_MAX + 1);
    assert_false(seen_from_backend(&box, &seen));
    fill(box.labels.sandbox_id, BACKEND_LABEL_MAX);
    assert_false(seen_from_backend(&box, &seen));
    box.is_foreign = true;
    assert_false(seen_from_backend(&box, &seen));
}

static void test_profile_is_not_cut(void **state UNUSED)
{
    struct backend_box box = {.labels = {.box_id = 7}};
    struct pool_seen seen;

    fill(box.labels.profile, POOL_NAME_MAX + 1);
    assert_false(seen_from_backend(&box, &seen));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_id),
        cmocka_unit_test(test_id_is_not_cut),
        cmocka_unit_test(test_profile_is_not_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
