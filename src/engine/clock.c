/* clock.c - times in rows outlive the process, and the wall clock may be set at any time. So rows have the
 * monotonic clock plus an offset that does not move while the machine runs: a process that finds the
 * offset of this run of the machine reads every deadline as the one before it wrote it.
 *
 * After another start of the machine only the wall clock joins the two. The rows are then behind or ahead of it
 * by what the clock was set by until then, which is kept with the offset. */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "engine/internal.h"

enum {
    NOTICED_MS = 1000 /* a clock that is merely adjusted moves slowly */
};

static bool read_line(const char *path, char *dst, size_t cap)
{
    bool is_read = file_read_start(AT_FDCWD, path, dst, cap) > 0;

    if (is_read)
        dst[strcspn(dst, "\n")] = '\0';
    return is_read;
}

/* A container may have a monotonic clock of its own: its offset is part of the name. */
static void name_run(struct engine *e)
{
    char offset[64];

    e->clock.run[0] = '\0';
    if (str_is_empty(e->boot_id))
        return;
    if (!read_line("/proc/self/timens_offsets", offset, sizeof(offset)))
        offset[0] = '\0';
    for (char *c = offset; *c != '\0'; c++)
        if (isspace((unsigned char) *c))
            *c = '_';
    (void) snprintf(e->clock.run, sizeof(e->clock.run), "%s/%s", e->boot_id, offset);
}

void clock_begin(struct engine *e)
{
    if (!read_line("/proc/sys/kernel/random/boot_id", e->boot_id, sizeof(e->boot_id)))
        e->boot_id[0] = '\0';
    name_run(e);
    e->rt->stored_offset_ms = e->rt->wall_offset_ms;
    e->clock.skew_ms = 0;
    e->clock.is_noted = false;
}

void clock_restore(struct engine *e, const char *text)
{
    struct rt *rt = e->rt;
    size_t len = strcspn(text, " ");
    uint64_t offset = 0;
    uint64_t skew = 0;
    char number[17];

    if (text[len] == '\0' || strlen(text + len) != 2 * sizeof(number))
        return; /* not ours */
    str_copy_cut(number, sizeof(number), text + len + 1);
    if (!str_parse_hex64(number, &offset) ||
        !str_parse_hex64(text + len + 1 + sizeof(number), &skew))
        return;
    e->clock.skew_ms = (int64_t) skew;
    if (!str_is_empty(e->clock.run) && strlen(e->clock.run) == len &&
        strncmp(e->clock.run, text, len) == 0) {
        rt->stored_offset_ms = (int64_t) offset;
        e->clock.is_noted = true;
        return;
    }
    rt->stored_offset_ms = rt->wall_offset_ms - e->clock.skew_ms;
    if (rt->stored_offset_ms < 0) /* the clock is far off: such times could not be written */
        rt->stored_offset_ms = rt->wall_offset_ms;
}

void clock_note(struct engine *e)
{
    int64_t skew_ms = e->rt->wall_offset_ms - e->rt->stored_offset_ms;
    int64_t by_ms = skew_ms - e->clock.skew_ms;
    char text[sizeof(e->clock.run) + 40];
    char offset[17];
    char skew[17];

    if (e->clock.is_noted && by_ms > -NOTICED_MS && by_ms < NOTICED_MS)
        return;
    if (e->clock.is_noted)
        log_info("engine.clock_was_set", LF_I64("by_ms", by_ms));
    e->clock.is_noted = true;
    e->clock.skew_ms = skew_ms;
    str_hex64(offset, (uint64_t) e->rt->stored_offset_ms);
    str_hex64(skew, (uint64_t) skew_ms);
    (void) snprintf(text, sizeof(text), "%s %s %s", e->clock.run, offset, skew);
    meta_put(e, META_CLOCK, text);
}
