/* The public id of a thread is part of the interface: other programs compute it themselves. Known
 * vectors, and no two owners get the same id by moving characters across the colon. */
#include <string.h>

#include "dialects/native/internal.h"
#include "tests/lib/unit.h"

static void known_vectors(void **state)
{
    static const struct {
        const char *user;
        const char *thread;
        const char *id;
    } vectors[] = {
        {"default", "thread-1", "fe0dc8182dec7b77"},
        {"default", "demo", "a8d33e78f2690480"},
        {"alice@example.org", "a.b_c-1", "c0bad09e87576c7a"},
    };
    char id[POOL_ID_MAX + 1];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        api_sandbox_id(vectors[i].user, vectors[i].thread, id);
        assert_string_equal(id, vectors[i].id);
    }
}

static void owners_differ(void **state)
{
    char a[POOL_ID_MAX + 1];
    char b[POOL_ID_MAX + 1];

    (void) state;
    api_sandbox_id("default", "thread-1", a);
    api_sandbox_id("default", "thread-2", b);
    assert_string_not_equal(a, b);
    api_sandbox_id("alice", "thread-1", b);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 16);
}

static void states_callers_see(void **state)
{
    static const struct {
        enum pool_state state;
        const char *name;
    } names[] = {
        {POOL_INTENT, "starting"},     {POOL_CREATING, "starting"},   {POOL_STARTING, "starting"},
        {POOL_BLANK, "blank"},         {POOL_LEASING, "leased"},      {POOL_LEASED, "leased"},
        {POOL_PARKING, "leased"},      {POOL_PARKED, "parked"},       {POOL_DOOMED, "deleting"},
        {POOL_DESTROYING, "deleting"}, {POOL_FORGETTING, "deleting"}, {POOL_FREE, "gone"},
    };

    (void) state;
    assert_int_equal(ARRAY_LEN(names), POOL_STATE_COUNT);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_string_equal(api_state_name(names[i].state), names[i].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_vectors),
        cmocka_unit_test(owners_differ),
        cmocka_unit_test(states_callers_see),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
