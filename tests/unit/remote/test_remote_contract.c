/* The `remote` backend against a provisioner that behaves: the contract, with a newer and an older one. */

#include "tests/lib/unit.h"
#include "tests/unit/backend/conformance.h"
#include "tests/unit/remote/provisioner.h"

static int set_up_old(void **state)
{
    int rc = provisioner_set_up(state);

    provisioner_set(*state, "{'old': true}");
    return rc;
}

int main(void)
{
    const struct CMUnitTest newer[] = {
        CONFORMANCE_TESTS(provisioner_set_up, provisioner_tear_down)};
    const struct CMUnitTest older[] = {CONFORMANCE_TESTS(set_up_old, provisioner_tear_down)};
    int rc = cmocka_run_group_tests_name("newer", newer, NULL, NULL);

    return rc != 0 ? rc : cmocka_run_group_tests_name("older", older, NULL, NULL);
}
