/* conformance.h - what every backend must do, as tests that run on any of them. The state of each
 * is an open struct fixture; the set-up and tear-down belong to the backend's own test program. */
#ifndef TESTS_UNIT_BACKEND_CONFORMANCE_H
#define TESTS_UNIT_BACKEND_CONFORMANCE_H

#include "tests/unit/backend/fixture.h"

void conformance_life(void **state);
void conformance_create_is_idempotent(void **state);
void conformance_destroy_of_nothing(void **state);
void conformance_discover(void **state);
void conformance_bind_of_nothing(void **state);
void conformance_cancelled_create(void **state);
void conformance_late_create(void **state);
void conformance_cancelled_reads(void **state);
void conformance_many_at_once(void **state);
void conformance_death_is_reported(void **state);
void conformance_other_instance(void **state);
void conformance_update(void **state);
void conformance_update_that_ends_early(void **state);
void conformance_stats(void **state);
void conformance_examine(void **state);
void conformance_close_in_flight(void **state);

#define CONFORMANCE_TEST(name, set_up, tear_down) \
    cmocka_unit_test_setup_teardown(conformance_##name, set_up, tear_down)

#define CONFORMANCE_TESTS(set_up, tear_down)                                                      \
    CONFORMANCE_TEST(life, set_up, tear_down),                                                    \
        CONFORMANCE_TEST(create_is_idempotent, set_up, tear_down),                                \
        CONFORMANCE_TEST(destroy_of_nothing, set_up, tear_down),                                  \
        CONFORMANCE_TEST(discover, set_up, tear_down),                                            \
        CONFORMANCE_TEST(bind_of_nothing, set_up, tear_down),                                     \
        CONFORMANCE_TEST(cancelled_create, set_up, tear_down),                                    \
        CONFORMANCE_TEST(late_create, set_up, tear_down),                                         \
        CONFORMANCE_TEST(cancelled_reads, set_up, tear_down),                                     \
        CONFORMANCE_TEST(many_at_once, set_up, tear_down),                                        \
        CONFORMANCE_TEST(death_is_reported, set_up, tear_down),                                   \
        CONFORMANCE_TEST(other_instance, set_up, tear_down),                                      \
        CONFORMANCE_TEST(update, set_up, tear_down),                                              \
        CONFORMANCE_TEST(update_that_ends_early, set_up, tear_down),                              \
        CONFORMANCE_TEST(stats, set_up, tear_down), CONFORMANCE_TEST(examine, set_up, tear_down), \
        CONFORMANCE_TEST(close_in_flight, set_up, tear_down)

#endif
