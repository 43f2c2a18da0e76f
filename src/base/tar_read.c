/* tar_read.c - the archive is a stranger's: every number and length in it is checked. */
#include "base/tar_read.h"

#include <string.h>

#include "base/str.h"

enum { EXTRA_MAX = 1024 * 1024 }; /* one header of names and attributes */

/* What headers before the entry's own say about it. */
struct extra {
    bool has_name;
    bool has_link;
    bool has_size;
    bool has_uid;
    bool has_gid;
    bool has_mtime;
    bool has_pax;
    bool is_sparse;
    struct tar_entry entry;
};

void tar_reader_init(struct tar_reader *r, ssize_t (*read)(void *ctx, void *dst, size_t cap),
                     void *ctx)
{
    memset(r, 0, sizeof(*r));
    r->read = read;
    r->ctx = ctx;
    buf_init(&r->extra, EXTRA_MAX + 1);
}

void tar_reader_fini(struct tar_reader *r)
{
    buf_fini(&r->extra);
}

static enum tar_result bad(struct tar_reader *r, const char *problem)
{
    r->problem = problem;
    return TAR_BAD;
}

/* How many of the bytes came; fewer at the end. -1: it is never reached. */
static ssize_t read_all(const struct tar_reader *r, void *dst, size_t len)
{
    size_t have = 0;

    while (have < len) {
        ssize_t n = r->read(r->ctx, (char *) dst + have, len - have);

        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t) n;
    }
    return (ssize_t) have;
}

ssize_t tar_reader_data(struct tar_reader *r, void *dst, size_t cap)
{
    ssize_t n;

    if (r->left == 0)
        return 0;
    n = r->read(r->ctx, dst, (size_t) MIN_OF(r->left, (uint64_t) cap));
    if (n <= 0)
        return -1;
    r->left -= (uint64_t) n;
    return n;
}

/* False when it ends before. */
static bool skip_rest(struct tar_reader *r)
{
    char data[4096];

    while (r->left > 0)
        if (tar_reader_data(r, data, sizeof(data)) < 0)
            return false;
    if (r->padding > 0 && read_all(r, data, r->padding) != (ssize_t) r->padding)
        return false;
    r->padding = 0;
    return true;
}

/* Octal between spaces and NULs, or with the first bit set binary. */
static bool parse_number(const char *field, size_t len, uint64_t *ret)
{
    const unsigned char *p = (const unsigned char *) field;
    size_t i = 0;
    uint64_t v = 0;

    if ((p[0] & 0x80) != 0) {
        if (p[0] != 0x80)
            return false; /* negative, or beyond every file */
        for (i = 1; i < len; i++) {
            if (v >> 55 != 0)
                return false;
            v = v << 8 | p[i];
        }
        *ret = v;
        return true;
    }
    while (i < len && p[i] == ' ')
        i++;
    for (; i < len && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t) (p[i] - '0');
    *ret = v;
    while (i < len && (p[i] == ' ' || p[i] == '\0'))
        i++;
    return i == len;
}

/* A time may be negative; whoever wrote it does not matter here. */
static int64_t parse_time(const char *field, size_t len)
{
    uint64_t v = 0;

    return parse_number(field, len, &v) && v <= INT64_MAX ? (int64_t) v : 0;
}

/* --- pax --- */

static bool set_text(char *dst, const char *value, size_t len)
{
    return len > 0 && memchr(value, '\0', len) == NULL && str_copy_n(dst, TAR_PATH_MAX, value, len);
}

static bool set_number(uint64_t *dst, const char *value, size_t len)
{
    char text[24];

    return str_copy_n(text, sizeof(text), value, len) && str_parse_u64(text, 0, INT64_MAX, dst);
}

/* "1700000000.123456789"; what cannot be read is no time, and no reason to refuse a file. */
static void set_mtime(struct extra *x, const char *value, size_t len)
{
    const char *dot = memchr(value, '.', len);
    size_t whole = dot != NULL ? (size_t) (dot - value) : len;
    uint64_t s = 0;
    uint32_t ns = 0;
    uint32_t unit = 100000000;

    if (!set_number(&s, value, whole))
        return;
    for (size_t i = whole + 1; i < len && unit > 0 && value[i] >= '0' && value[i] <= '9'; i++) {
        ns += unit * (uint32_t) (value[i] - '0');
        unit /= 10;
    }
    x->has_mtime = true;
    x->entry.mtime_s = (int64_t) s;
    x->entry.mtime_ns = ns;
}

static bool is_key(const char *key, size_t len, const char *name)
{
    return len == strlen(name) && memcmp(key, name, len) == 0;
}

static bool take_record(const struct tar_reader *r, struct extra *x, const char *key,
                        size_t key_len, const char *value, size_t len)
{
    static const char sparse[] = "GNU.sparse.";

    if (is_key(key, key_len, "path"))
        return x->has_name = set_text(x->entry.name, value, len);
    if (is_key(key, key_len, "linkpath"))
        return x->has_link = set_text(x->entry.link, value, len);
    if (is_key(key, key_len, "size"))
        return x->has_size = set_number(&x->entry.size, value, len);
    if (is_key(key, key_len, "uid"))
        x->has_uid = set_number(&x->entry.uid, value, len);
    else if (is_key(key, key_len, "gid"))
        x->has_gid = set_number(&x->entry.gid, value, len);
    else if (is_key(key, key_len, "mtime"))
        set_mtime(x, value, len);
    else if (r->on_record != NULL)
        return r->on_record(r->ctx, key, key_len, value, len);
    else if (key_len >= strlen(sparse) && memcmp(key, sparse, strlen(sparse)) == 0)
        x->is_sparse = true;
    return true;
}

/* "<length> <key>=<value>\n", the length of all that. */
static bool take_pax(const struct tar_reader *r, struct extra *x, const char *p, size_t len)
{
    while (len > 0) {
        const char *space = memchr(p, ' ', MIN_OF(len, 21));
        const char *equals;
        const char *end;
        uint64_t n = 0;

        if (space == NULL || !set_number(&n, p, (size_t) (space - p)) || n > len ||
            n < (size_t) (space - p) + 2)
            return false;
        end = p + n - 1;
        equals = memchr(space + 1, '=', (size_t) (end - space - 1));
        if (*end != '\n' || equals == NULL ||
            !take_record(r, x, space + 1, (size_t) (equals - space - 1), equals + 1,
                         (size_t) (end - equals - 1)))
            return false;
        p += n;
        len -= n;
    }
    return true;
}

/* --- headers --- */

/* Reads the data of the header to r->extra. */
static enum tar_result read_extra(struct tar_reader *r, uint64_t size)
{
    size_t len = (size_t) size;

    if (size > EXTRA_MAX)
        return bad(r, "a header of names is too large");
    buf_reset(&r->extra);
    if (!buf_reserve(&r->extra, len + 1))
        return bad(r, "no memory for a header of names");
    r->left = size;
    r->padding = tar_padding(size);
    while (r->left > 0) {
        ssize_t n = tar_reader_data(r, r->extra.data + r->extra.len, (size_t) r->left);

        if (n < 0)
            return TAR_GONE;
        r->extra.len += (size_t) n;
    }
    return skip_rest(r) ? TAR_ENTRY : TAR_GONE;
}

static enum tar_result take_extra(struct tar_reader *r, struct extra *x, char type, uint64_t size)
{
    enum tar_result result = read_extra(r, size);
    const char *text = buf_str(&r->extra);
    size_t len = r->extra.len;

    if (result != TAR_ENTRY || type == TAR_PAX_GLOBAL || type == TAR_GNU_VOLUME)
        return result;
    x->has_pax = x->has_pax || type == TAR_PAX;
    if (type == TAR_PAX)
        return take_pax(r, x, text, len) ? TAR_ENTRY : bad(r, "a pax header is malformed");
    while (len > 0 && text[len - 1] == '\0')
        len--;
    if (!set_text(type == TAR_GNU_NAME ? x->entry.name : x->entry.link, text, len))
        return bad(r, "a long name is malformed");
    if (type == TAR_GNU_NAME)
        x->has_name = true;
    else
        x->has_link = true;
    return TAR_ENTRY;
}

static size_t field_len(const char *field, size_t cap)
{
    return strnlen(field, cap);
}

static void copy_names(struct tar_entry *e, const struct tar_header *h)
{
    size_t n = 0;

    if (memcmp(h->magic, "ustar", 6) == 0 && h->prefix[0] != '\0') { /* with its NUL: not GNU's */
        n = field_len(h->prefix, sizeof(h->prefix));
        memcpy(e->name, h->prefix, n);
        e->name[n++] = '/';
    }
    memcpy(e->name + n, h->name, field_len(h->name, sizeof(h->name)));
    e->name[n + field_len(h->name, sizeof(h->name))] = '\0';
    memcpy(e->link, h->link, field_len(h->link, sizeof(h->link)));
    e->link[field_len(h->link, sizeof(h->link))] = '\0';
}

/* What earlier headers said wins. */
static void apply(struct tar_entry *e, const struct extra *x)
{
    if (x->has_name)
        memcpy(e->name, x->entry.name, sizeof(e->name));
    if (x->has_link)
        memcpy(e->link, x->entry.link, sizeof(e->link));
    if (x->has_size)
        e->size = x->entry.size;
    if (x->has_uid)
        e->uid = x->entry.uid;
    if (x->has_gid)
        e->gid = x->entry.gid;
    if (x->has_mtime) {
        e->mtime_s = x->entry.mtime_s;
        e->mtime_ns = x->entry.mtime_ns;
    }
}

/* Whether a header of this type, before an entry, says the same to every reader. */
static bool is_plain_extra(const struct extra *x, char type)
{
    switch (type) {
    case TAR_PAX:
        return !x->has_pax; /* others forget the first */
    case TAR_GNU_NAME:
        return !x->has_name;
    case TAR_GNU_LINK:
        return !x->has_link;
    default: /* others take it for an entry, and what came before it for that entry's */
        return !x->has_pax && !x->has_name && !x->has_link;
    }
}

/* The types that the caller knows. */
static bool settle_type(struct tar_entry *e)
{
    size_t len = strlen(e->name);

    if (e->type == '\0' || e->type == TAR_CONTIGUOUS)
        e->type = TAR_FILE;
    if (e->type == TAR_FILE && len > 0 && e->name[len - 1] == '/')
        e->type = TAR_DIRECTORY; /* before there were types */
    if (e->type == TAR_GNU_DIRECTORY)
        e->type = TAR_DIRECTORY;
    return e->type >= TAR_FILE && e->type <= TAR_FIFO;
}

static enum tar_result take_entry(struct tar_reader *r, const struct tar_header *h,
                                  const struct extra *x, uint64_t size, struct tar_entry *ret)
{
    uint64_t mode = 0;

    ret->type = h->type;
    ret->mtime_ns = 0;
    copy_names(ret, h);
    ret->size = size;
    ret->mtime_s = parse_time(h->mtime, sizeof(h->mtime));
    if (!parse_number(h->mode, sizeof(h->mode), &mode) ||
        !parse_number(h->uid, sizeof(h->uid), &ret->uid) ||
        !parse_number(h->gid, sizeof(h->gid), &ret->gid))
        return bad(r, "a number in a header is malformed");
    ret->mode = (mode_t) (mode & 07777);
    apply(ret, x);
    if (ret->size > INT64_MAX)
        return bad(r, "a size is malformed");
    if (x->is_sparse || h->type == TAR_GNU_SPARSE)
        return bad(r, "sparse files are not supported: make the archive without --sparse");
    if (h->type == TAR_GNU_DIRECTORY) {
        r->left = ret->size;
        r->padding = tar_padding(ret->size);
    }
    if (!settle_type(ret))
        return bad(r, "an entry has a type that is not known");
    if (r->is_strict && ret->type != TAR_FILE && ret->size > 0)
        return bad(r, "an entry that is no file has data");
    if (ret->type == TAR_FILE) {
        r->left = ret->size;
        r->padding = tar_padding(ret->size);
    } else {
        ret->size = 0; /* others have no data, whatever they say */
    }
    return TAR_ENTRY;
}

/* Whatever is behind the end is read: it belongs to the body. */
static enum tar_result take_end(const struct tar_reader *r)
{
    char data[4096];
    ssize_t n;

    do
        n = r->read(r->ctx, data, sizeof(data));
    while (n > 0);
    return n == 0 ? TAR_END : TAR_GONE;
}

static enum tar_result check_header(struct tar_reader *r, const struct tar_header *h)
{
    static const unsigned char gzip[] = {0x1f, 0x8b};
    uint64_t sum = 0;

    if (parse_number(h->sum, sizeof(h->sum), &sum) && sum == tar_sum(h))
        return TAR_ENTRY;
    if (memcmp(h->name, gzip, sizeof(gzip)) == 0)
        return bad(r, "the archive is compressed: send it without compression");
    return bad(r, r->entries > 0 ? "the archive is damaged: a header has a wrong sum"
                                 : "this is no tar archive");
}

enum tar_result tar_reader_next(struct tar_reader *r, struct tar_entry *ret)
{
    static const struct tar_header zero;
    static struct extra x;
    struct tar_header h;
    bool is_first = true;

    memset(&x, 0, sizeof(x));
    ret->name[0] = '\0';
    if (!skip_rest(r))
        return bad(r, "the archive ends in the middle of a file");
    for (;;) {
        ssize_t n = read_all(r, &h, sizeof(h));
        enum tar_result result;
        uint64_t size = 0;

        if (n < 0)
            return TAR_GONE;
        if (n == 0 && is_first && r->entries > 0)
            return TAR_END; /* without its mark */
        if (n < (ssize_t) sizeof(h))
            return bad(r, r->entries > 0 ? "the archive is cut" : "this is no tar archive");
        if (memcmp(&h, &zero, sizeof(h)) == 0)
            return take_end(r);
        result = check_header(r, &h);
        if (result != TAR_ENTRY)
            return result;
        if (!parse_number(h.size, sizeof(h.size), &size))
            return bad(r, "a size is malformed");
        r->entries++;
        if (h.type == '\0' || strchr("xgLKV", h.type) == NULL)
            return take_entry(r, &h, &x, size, ret);
        if (r->is_strict && !is_plain_extra(&x, h.type))
            return bad(r, "headers of one entry contradict each other");
        result = take_extra(r, &x, h.type, size);
        if (result != TAR_ENTRY)
            return result == TAR_GONE ? bad(r, "the archive is cut") : result;
        is_first = false;
    }
}
