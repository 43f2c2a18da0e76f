/* sides.c - the variables that hibernated boxes keep: the files of src/engine/snapshot_side.c, which outlive the daemon, and
 * what must be true of them. Each box has one variable, with the number of its files in it. */
#include "engine/snapshot_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "walk.h"

/* The names that the linker gives to the replaced functions. */
int __wrap_side_write(const char *dir, uint64_t id, const struct snapshot_side *side,
                      struct err *err);
void __wrap_side_read(const char *dir, uint64_t id, struct snapshot_side *ret);

#define NAME "FILES"

static uint64_t files_of(const struct backend_extras *x)
{
    uint64_t files = 0;

    for (size_t i = 0; x != NULL && i < x->env_count; i++)
        if (strcmp(x->envs[i].name, NAME) == 0 &&
            !str_parse_u64(x->envs[i].value, 0, UINT64_MAX, &files))
            walk_fail("a variable of a hibernated box has changed");
    return files;
}

/* They are lost with this failure: a box that is hibernated goes without. */
static void forget(uint64_t files)
{
    for (size_t i = 0; i < walk.box_count; i++)
        walk.boxes[i].wants_envs = walk.boxes[i].wants_envs && walk.boxes[i].files != files;
}

int __wrap_side_write(const char *dir UNUSED, uint64_t id, const struct snapshot_side *side,
                      struct err *err)
{
    if (!walk.is_frozen && walk_chance(4)) {
        forget(files_of(side->envs));
        return err_set(err, SP_IO, "the disk is bad");
    }
    if (walk.is_frozen)
        return err_set(err, SP_IO, "the daemon is dead");
    walk.sides[walk.side_count % WALK_SNAPSHOTS].id = id;
    walk.sides[walk.side_count % WALK_SNAPSHOTS].files = files_of(side->envs);
    walk.sides[walk.side_count % WALK_SNAPSHOTS].was_unequipped = side->was_unequipped;
    walk.side_count++;
    return SP_OK;
}

static bool was_unequipped(uint64_t snapshot)
{
    for (size_t i = 0; i < WALK_SNAPSHOTS; i++)
        if (walk.sides[i].id == snapshot)
            return walk.sides[i].was_unequipped;
    return false;
}

void __wrap_side_read(const char *dir UNUSED, uint64_t id, struct snapshot_side *ret)
{
    uint64_t files = sides_of(id);
    char value[24];
    struct backend_env_var env = {NAME, value};
    struct backend_extras x = {.envs = &env, .env_count = 1};

    *ret = (struct snapshot_side){0};
    if (files == 0)
        return;
    (void) snprintf(value, sizeof(value), "%llu", (unsigned long long) files);
    ret->envs = backend_extras_copy(&x);
    ret->was_unequipped = was_unequipped(id);
}

uint64_t sides_of(uint64_t snapshot)
{
    for (size_t i = 0; i < WALK_SNAPSHOTS; i++)
        if (walk.sides[i].id == snapshot)
            return walk.sides[i].files;
    return 0;
}

void sides_answer(const struct walk_box *b, struct buf *response)
{
    if (b->files % 3 == 0)
        buf_printf(response, "{\"set_only\": true, \"env\": {}}");
    else
        buf_printf(response, "{\"set_only\": true, \"env\": {\"" NAME "\": \"%llu\"}}",
                   (unsigned long long) b->files);
}

void sides_given(struct walk_box *b, const struct backend_extras *x)
{
    uint64_t files = files_of(x);

    if (files != 0 && files != b->files)
        walk_fail("a box gets the variables of another one");
    if (files != 0)
        walk.sides_given++;
    b->wants_envs = b->wants_envs && x->env_count == 0;
}

/* At a start a backend may not have shown its snapshots yet. */
void sides_judge(struct walk_box *b, const struct walk_request *r)
{
    if (b->wants_envs && r->was_hibernated && (r->kinds & BACKEND_LATE_ENVS) == 0 &&
        (backends_late(b->backend) & BACKEND_LATE_ENVS) != 0)
        walk_fail("a box has come back without its variables");
    b->wants_envs = false;
}
