/* tar_write.c - times have whole seconds, owners are numbers: so most entries need one block. */
#include "base/tar_write.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

#define SIZE_MAX_OCTAL 077777777777ULL /* 8 GiB - 1 */
#define ID_MAX_OCTAL 07777777U
#define RECORDS_MAX (1024 * 1024) /* what the reader takes */

static void put_octal(char *field, size_t cap, uint64_t v)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%0*llo", (int) cap - 1, (unsigned long long) v);

    if (n == (int) cap - 1)
        memcpy(field, text, cap);
}

static void put_block(struct buf *out, struct tar_header *h)
{
    char text[16];

    (void) snprintf(text, sizeof(text), "%06o", tar_sum(h));
    memcpy(h->sum, text, 7); /* with a NUL, then a space */
    h->sum[7] = ' ';
    buf_append(out, h, sizeof(*h));
}

static void init_header(struct tar_header *h, char type, uint64_t size)
{
    memset(h, 0, sizeof(*h));
    h->type = type;
    memcpy(h->magic, "ustar", 6);
    memcpy(h->version, "00", 2);
    put_octal(h->size, sizeof(h->size), size);
    put_octal(h->mode, sizeof(h->mode), 0644);
    put_octal(h->uid, sizeof(h->uid), 0);
    put_octal(h->gid, sizeof(h->gid), 0);
    put_octal(h->mtime, sizeof(h->mtime), 0);
    put_octal(h->major_id, sizeof(h->major_id), 0);
    put_octal(h->minor_id, sizeof(h->minor_id), 0);
}

/* The length counts its own digits. */
void tar_put_record(struct buf *out, const char *key, const void *value, size_t value_len)
{
    size_t rest = strlen(key) + value_len + 3;
    size_t len = rest + 1;
    char digits[24];

    while (rest + (size_t) snprintf(digits, sizeof(digits), "%zu", len) != len)
        len = rest + strlen(digits);
    buf_printf(out, "%zu %s=", len, key);
    buf_append(out, value, value_len);
    buf_putc(out, '\n');
}

static void put_record(struct buf *out, const char *key, const char *value)
{
    tar_put_record(out, key, value, strlen(value));
}

static void put_number(struct buf *out, const char *key, uint64_t v)
{
    char text[24];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) v);
    put_record(out, key, text);
}

static void put_zeros(struct buf *out, unsigned n)
{
    static const char zeros[TAR_BLOCK];

    buf_append(out, zeros, n);
}

static void put_pax(struct buf *out, const struct buf *records)
{
    struct tar_header h;

    if (records->len == 0)
        return;
    init_header(&h, TAR_PAX, records->len);
    memcpy(h.name, "pax", 4);
    put_block(out, &h);
    buf_append(out, buf_str(records), records->len);
    put_zeros(out, tar_padding(records->len));
}

static void put_text(char *field, size_t cap, const char *text)
{
    memcpy(field, text, strnlen(text, cap)); /* a full field has no NUL */
}

void tar_put_entry(struct buf *out, char type, const char *name, const char *link,
                   const struct stat *st, const struct buf *more)
{
    uint64_t size = type == TAR_FILE ? (uint64_t) st->st_size : 0;
    uint64_t mtime = st->st_mtim.tv_sec > 0 ? (uint64_t) st->st_mtim.tv_sec : 0;
    struct tar_header h;
    struct buf full;
    struct buf records;

    buf_init(&full, 64 * 1024);
    buf_init(&records, RECORDS_MAX);
    buf_puts(&full, name);
    if (type == TAR_DIRECTORY)
        buf_putc(&full, '/');
    if (full.len > sizeof(h.name))
        put_record(&records, "path", buf_str(&full));
    if (link != NULL && strlen(link) > sizeof(h.link))
        put_record(&records, "linkpath", link);
    if (size > SIZE_MAX_OCTAL)
        put_number(&records, "size", size);
    if (st->st_uid > ID_MAX_OCTAL)
        put_number(&records, "uid", st->st_uid);
    if (st->st_gid > ID_MAX_OCTAL)
        put_number(&records, "gid", st->st_gid);
    if (mtime > SIZE_MAX_OCTAL)
        put_number(&records, "mtime", mtime);
    if (more != NULL)
        buf_append(&records, buf_str(more), more->len);
    put_pax(out, &records);
    init_header(&h, type, size <= SIZE_MAX_OCTAL ? size : 0);
    put_text(h.name, sizeof(h.name), buf_str(&full));
    if (link != NULL)
        put_text(h.link, sizeof(h.link), link);
    put_octal(h.mode, sizeof(h.mode), st->st_mode & 07777);
    put_octal(h.uid, sizeof(h.uid), st->st_uid <= ID_MAX_OCTAL ? st->st_uid : 0);
    put_octal(h.gid, sizeof(h.gid), st->st_gid <= ID_MAX_OCTAL ? st->st_gid : 0);
    put_octal(h.mtime, sizeof(h.mtime), mtime <= SIZE_MAX_OCTAL ? mtime : 0);
    put_block(out, &h);
    if (buf_failed(&full) || buf_failed(&records))
        out->is_failed = true;
    buf_fini(&full);
    buf_fini(&records);
}

void tar_put_header(struct buf *out, char type, const char *name, const char *link,
                    const struct stat *st)
{
    tar_put_entry(out, type, name, link, st, NULL);
}

void tar_put_end(struct buf *out)
{
    put_zeros(out, TAR_BLOCK);
    put_zeros(out, TAR_BLOCK);
}
