/* output.c - a bounded record of a stream. Writing never fails: if the disk
 * fails, the end is kept in memory instead. */
#include "agent/process/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

void output_init(struct output *o, struct output_disk *disk)
{
    memset(o, 0, sizeof(*o));
    o->disk = disk;
    o->fd = -1;
    buf_init(&o->head, OUTPUT_HEAD_MAX);
}

void output_fini(struct output *o)
{
    if (o->fd >= 0) {
        (void) close(o->fd); /* it has no name: this frees the disk space */
        o->disk->used -= o->ring;
    }
    o->fd = -1;
    if (o->disk->recent_of == o)
        output_forget(o->disk);
    free(o->tail);
    o->tail = NULL;
    free(o->late);
    o->late = NULL;
    buf_fini(&o->head);
}

/* A file that nobody else can open and that is deleted when its descriptor is closed. */
static int make_file(const char *dir)
{
    char path[256];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0)
        return fd;
    if ((size_t) snprintf(path, sizeof(path), "%s/.sandpool-XXXXXX", dir) >= sizeof(path))
        return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void) unlink(path); /* made a moment ago */
    return fd;
}

static void give_up_disk(struct output *o)
{
    if (o->fd >= 0) {
        (void) close(o->fd);
        o->disk->used -= o->ring;
    }
    o->fd = -1;
    o->ring = 0;
    o->is_broken = true;
    o->broke_at = o->end;
    o->tail = xcalloc(1, OUTPUT_TAIL_MAX);
}

static void append_tail(struct output *o, const char *data, size_t len)
{
    while (len > 0) {
        size_t at = (size_t) ((o->end - o->broke_at) % OUTPUT_TAIL_MAX);
        size_t n = MIN_OF(len, OUTPUT_TAIL_MAX - at);

        memcpy(o->tail + at, data, n);
        o->end += n;
        data += n;
        len -= n;
    }
}

/* How many bytes may be written at the place of o->end; grows the file or closes the ring. */
static size_t room_at_end(struct output *o, size_t len, uint64_t *ret_pos)
{
    uint64_t done = o->end - OUTPUT_HEAD_MAX;
    uint64_t more;

    if (!o->is_full) {
        more = o->disk->stream_max - o->ring;
        more = MIN_OF(more, o->disk->total_max - o->disk->used);
        if (more > 0 || o->ring == 0) {
            *ret_pos = done;
            return (size_t) MIN_OF(more, len);
        }
        o->is_full = true;
    }
    *ret_pos = done % o->ring;
    return (size_t) MIN_OF(o->ring - *ret_pos, len);
}

static void append_disk(struct output *o, const char *data, size_t len)
{
    while (len > 0 && !o->is_broken) {
        uint64_t pos = 0;
        size_t n = room_at_end(o, len, &pos);
        ssize_t r;

        if (o->fd < 0 && n > 0)
            o->fd = make_file(o->disk->dir);
        r = o->fd >= 0 && n > 0 ? pwrite(o->fd, data, n, (off_t) pos) : -1;
        if (r < 0 && errno == ENOSPC && o->ring > 0 && !o->is_full) {
            o->is_full = true; /* what was kept stays, and is written over from its start */
            continue;
        }
        if (r <= 0) {
            give_up_disk(o);
            break;
        }
        if (!o->is_full) {
            o->ring += (uint64_t) r;
            o->disk->used += (uint64_t) r;
        }
        o->end += (uint64_t) r;
        data += r;
        len -= (size_t) r;
    }
    if (o->is_broken)
        append_tail(o, data, len);
}

/* As if it came only now. */
static void write_late(struct output *o)
{
    size_t len = o->late_len;

    o->late_len = 0;
    o->end -= len;
    append_disk(o, o->late, len);
}

/* Behind the head. A small piece costs less when it is written with others. */
static void append_rest(struct output *o, const char *data, size_t len)
{
    if (o->late_len + len > OUTPUT_LATE_MAX && o->late_len > 0)
        write_late(o);
    if (len > OUTPUT_LATE_MAX / 2 || o->is_broken) {
        if (o->late_len > 0)
            write_late(o);
        append_disk(o, data, len);
        return;
    }
    if (o->late == NULL)
        o->late = xcalloc(1, OUTPUT_LATE_MAX);
    memcpy(o->late + o->late_len, data, len);
    o->late_len += len;
    o->end += len;
}

void output_append(struct output *o, const char *data, size_t len)
{
    size_t n = MIN_OF(len, OUTPUT_HEAD_MAX - o->head.len);

    o->disk->recent_of = o;
    o->disk->recent = data;
    o->disk->recent_at = o->end;
    if (n > 0) {
        buf_append(&o->head, data, n);
        assert(!buf_failed(&o->head));
        o->end += n;
    }
    if (len > n)
        append_rest(o, data + n, len - n);
}

void output_forget(struct output_disk *disk)
{
    disk->recent_of = NULL;
    disk->recent = NULL;
}

void output_finish(struct output *o)
{
    char *data;

    if (o->late_len > 0)
        write_late(o);
    free(o->late);
    o->late = NULL;
    if (o->head.data == NULL || o->head.cap == o->head.len + 1)
        return;
    data = try_realloc(o->head.data, o->head.len + 1);
    if (data == NULL)
        return;
    o->head.data = data;
    o->head.cap = o->head.len + 1;
}

static uint64_t rest_start(const struct output *o)
{
    uint64_t kept;

    if (o->is_broken) {
        kept = MIN_OF(o->end - o->broke_at, (uint64_t) OUTPUT_TAIL_MAX);
        return o->end - kept;
    }
    return o->end - MIN_OF(o->end - o->head.len, o->ring + o->late_len);
}

uint64_t output_seek(const struct output *o, uint64_t offset)
{
    if (offset < o->head.len)
        return offset;
    return MIN_OF(MAX_OF(offset, rest_start(o)), o->end);
}

/* Bytes behind the head that are, or will be, kept. */
static uint64_t window(const struct output *o)
{
    uint64_t max = o->ring;

    if (!o->is_full && !o->is_broken)
        max = MIN_OF(o->disk->stream_max, o->ring + o->disk->total_max - o->disk->used);
    return o->is_broken || max == 0 ? OUTPUT_TAIL_MAX : max;
}

uint64_t output_reach(const struct output *o)
{
    uint64_t max = window(o);

    return max - MIN_OF(max / 2, (uint64_t) OUTPUT_SPARE);
}

uint64_t output_room(const struct output *o, uint64_t offset)
{
    uint64_t from = MAX_OF(offset, (uint64_t) OUTPUT_HEAD_MAX); /* the head is never lost */
    uint64_t behind = o->end > from ? o->end - from : 0;
    uint64_t reach = output_reach(o);

    return reach > behind ? reach - behind : 0;
}

static size_t read_disk(const struct output *o, uint64_t offset, char *dst, size_t cap)
{
    uint64_t late_at = o->end - o->late_len;
    uint64_t pos;
    ssize_t r;

    if (offset >= late_at) {
        memcpy(dst, o->late + (offset - late_at), cap);
        return cap;
    }
    cap = (size_t) MIN_OF(cap, late_at - offset);
    pos = (offset - OUTPUT_HEAD_MAX) % o->ring;
    r = pread(o->fd, dst, (size_t) MIN_OF(cap, o->ring - pos), (off_t) pos);
    return r > 0 ? (size_t) r : 0;
}

size_t output_read(const struct output *o, uint64_t offset, char *dst, size_t cap)
{
    size_t pos;

    if (offset >= o->end)
        return 0;
    if (offset < o->head.len) {
        cap = MIN_OF(cap, o->head.len - (size_t) offset);
        memcpy(dst, o->head.data + offset, cap);
        return cap;
    }
    assert(offset >= rest_start(o));
    cap = (size_t) MIN_OF(cap, o->end - offset);
    if (o->disk->recent_of == o && offset >= o->disk->recent_at) {
        memcpy(dst, o->disk->recent + (offset - o->disk->recent_at), cap);
        return cap;
    }
    if (!o->is_broken)
        return read_disk(o, offset, dst, cap);
    pos = (size_t) ((offset - o->broke_at) % OUTPUT_TAIL_MAX);
    cap = MIN_OF(cap, OUTPUT_TAIL_MAX - pos);
    memcpy(dst, o->tail + pos, cap);
    return cap;
}

/* Bytes at the end of `s` that begin a character and do not end it. */
static size_t cut_tail(const char *s, size_t len)
{
    for (size_t back = 1; back <= MIN_OF(len, 3U); back++) {
        unsigned char c = (unsigned char) s[len - back];
        size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

        if (c < 0x80)
            return 0;
        if (c >= 0xc0)
            return need > back ? back : 0;
    }
    return 0;
}

static void put_text(struct buf *dst, const char *s, size_t len)
{
    while (len > 0) {
        const char *nul = memchr(s, '\0', len);
        size_t n = nul != NULL ? (size_t) (nul - s) : len;

        buf_append(dst, s, n);
        if (nul != NULL) {
            buf_puts(dst, "\xef\xbf\xbd"); /* U+FFFD: JSON texts of ours have no NUL */
            n++;
        }
        s += n;
        len -= n;
    }
}

uint64_t output_text(const struct output *o, uint64_t offset, size_t max, bool want_whole,
                     struct buf *dst)
{
    struct buf raw;
    size_t cut = 0;

    offset = output_seek(o, offset);
    buf_init(&raw, max);
    for (;;) {
        char chunk[8192];
        uint64_t at = offset + raw.len;
        size_t n;

        if (output_seek(o, at) != at || raw.len == max)
            break; /* what follows was lost, or is too much */
        n = output_read(o, at, chunk, MIN_OF(sizeof(chunk), max - raw.len));
        if (n == 0)
            break;
        buf_append(&raw, chunk, n);
    }
    if (want_whole && raw.len > 0)
        cut = cut_tail(raw.data, raw.len);
    if (cut == raw.len && raw.len == max)
        cut = 0; /* more room would not be given next time either */
    put_text(dst, buf_str(&raw), raw.len - cut);
    offset += raw.len - cut;
    buf_fini(&raw);
    return offset;
}

void output_summary(const struct output *o, uint64_t from, uint64_t until, size_t max,
                    struct buf *dst)
{
    uint64_t after;
    uint64_t end;

    assert(from <= until && until <= o->end);
    if (until - from <= max) {
        after = output_text(o, from, (size_t) (until - from), false, dst);
        if (after == until)
            return; /* nothing was lost */
        end = output_seek(o, after);
    } else {
        after = output_text(o, from, max / 2, true, dst);
        end = output_seek(o, MAX_OF(after, until - max / 2));
    }
    end = MIN_OF(end, until);
    buf_printf(dst, "\n[... %llu bytes left out ...]\n", (unsigned long long) (end - after));
    (void) output_text(o, end, (size_t) (until - end), false, dst);
}
