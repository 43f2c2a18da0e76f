/* bench.h - a rig with the `remote` backend against fake_provisioner.py, whose switches are set over
 * HTTP. */
#ifndef TESTS_UNIT_REMOTE_BENCH_H
#define TESTS_UNIT_REMOTE_BENCH_H

#include "base/json.h"
#include "tests/unit/backend/rig.h"

#define BENCH_KEY "key-of-the-provisioner-0123456789"

struct bench {
    struct rig rig;
    struct config *config;
    char url[128];
};

int bench_set_up(void **state);
int bench_tear_down(void **state);

/* Sets switches (JSON, single quotes for double ones) and returns what the provisioner reports. */
struct json_doc *bench_control(struct rig *rig, const char *fmt, ...) PRINTF_LIKE(2, 3);
void bench_set(struct rig *rig, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The provisioner has a box of this name. */
bool bench_has(struct rig *rig, const char *name);
/* How often a box was made under the name; how often something was asked (of the name, or at all). */
uint64_t bench_made(struct rig *rig, const char *name);
size_t bench_asked(struct rig *rig, const char *what, const char *name);
/* The name of a box, from its ref. */
const char *bench_name(const struct backend_box *box);
/* A create for one thread, not waited for. */
void bench_start_special(struct rig *rig, struct backend_create *r, const char *sandbox_id,
                         const struct backend_extras *extras, uint64_t deadline_ns);

/* What tests do all the time; each asserts that it works. */
void bench_verdict(struct rig *rig, const struct backend_box *box, int want);
void bench_create(struct rig *rig, struct backend_create *r);
void bench_special(struct rig *rig, struct backend_create *r, const char *sandbox_id);
void bench_destroy(struct rig *rig, const struct backend_create *r);
size_t bench_count(struct rig *rig);
/* As after a restart: nothing is in memory. */
void bench_reopen(struct rig *rig);

#endif
