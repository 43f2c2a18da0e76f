/* test_config_ref.c - a configuration lives as long as its last user; the sanitizers see it when it
 * does not, or when it lives on. */

#include "engine/internal.h"
#include "tests/lib/unit.h"

static struct config *defaults(void)
{
    struct config *c = NULL;
    struct err err;

    assert_int_equal(config_load(NULL, &c, &err), SP_OK);
    return c;
}

static void test_last_user_frees(void **state UNUSED)
{
    struct engine_config_ref *ref = config_ref_new(defaults());
    struct engine_config_ref *user = config_ref_get(ref);

    assert_ptr_equal(user, ref);
    config_ref_put(ref); /* the engine has taken another configuration over */
    assert_non_null(config_find_profile(user->config, "default"));
    config_ref_put(user);
}

static void test_nothing_is_fine(void **state UNUSED)
{
    config_ref_put(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_user_frees),
        cmocka_unit_test(test_nothing_is_fine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
