/* provisioner.h - a fixture with the `remote` backend against fake_provisioner.py, whose switches are set over
 * HTTP. */
#ifndef TESTS_UNIT_REMOTE_PROVISIONER_H
#define TESTS_UNIT_REMOTE_PROVISIONER_H

#include "base/json.h"
#include "tests/unit/backend/fixture.h"

#define PROVISIONER_KEY "key-of-the-provisioner-0123456789"

struct provisioner {
    struct fixture fixture;
    struct config *config;
    char url[128];
};

int provisioner_set_up(void **state);
int provisioner_tear_down(void **state);

/* Sets switches (JSON, single quotes for double ones) and returns what the provisioner reports. */
struct json_doc *provisioner_control(struct fixture *fixture, const char *fmt, ...)
    PRINTF_LIKE(2, 3);
void provisioner_set(struct fixture *fixture, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The provisioner has a box of this name. */
bool provisioner_has(struct fixture *fixture, const char *name);
/* How often a box was made under the name; how often something was asked (of the name, or at all). */
uint64_t provisioner_made(struct fixture *fixture, const char *name);
size_t provisioner_asked(struct fixture *fixture, const char *what, const char *name);
/* The name of a box, from its ref. */
const char *provisioner_name(const struct backend_box *box);
/* A create for one thread, not waited for. */
void provisioner_start_special(struct fixture *fixture, struct backend_create *r,
                               const char *sandbox_id, const struct backend_extras *extras,
                               uint64_t deadline_ns);

/* What tests do all the time; each asserts that it works. */
void provisioner_verdict(struct fixture *fixture, const struct backend_box *box, int want);
void provisioner_create(struct fixture *fixture, struct backend_create *r);
void provisioner_special(struct fixture *fixture, struct backend_create *r, const char *sandbox_id);
void provisioner_destroy(struct fixture *fixture, const struct backend_create *r);
size_t provisioner_count(struct fixture *fixture);
/* As after a restart: nothing is in memory. */
void provisioner_reopen(struct fixture *fixture);

#endif
