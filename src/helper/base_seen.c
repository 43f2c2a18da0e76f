/* base_seen.c - remembers of which host a base was made, by the names, kinds and times of all that was copied. Looking at these
 * costs a small part of making the base anew, which each start of the daemon would do otherwise. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "helper/base.h"

#define SEEN_NAME ".seen"
#define SEEN_NEW_NAME ".seen.new"
#define TEXT_LEN (64 + 1 + 64 + 1) /* what was seen, the digest of the base */

/* What was changed so lately may be changed again without a new time. */
enum { SETTLED_S = 2 };

void base_look_init(struct base_look *l)
{
    sha256_init(&l->sum);
    l->newest = 0;
}

void base_look_add_text(struct base_look *l, const char *text)
{
    sha256_add(&l->sum, text, strlen(text) + 1);
}

void base_look_add(struct base_look *l, const char *name, const struct stat *st)
{
    char text[256];

    base_look_add_text(l, name);
    (void) snprintf(text, sizeof(text), "%o %u %u %lld %llu %llu %lld.%09ld %lld.%09ld",
                    (unsigned) st->st_mode, (unsigned) st->st_uid, (unsigned) st->st_gid,
                    (long long) st->st_size, (unsigned long long) st->st_dev,
                    (unsigned long long) st->st_ino, (long long) st->st_mtim.tv_sec,
                    st->st_mtim.tv_nsec, (long long) st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
    base_look_add_text(l, text);
    if (st->st_ctim.tv_sec > l->newest)
        l->newest = st->st_ctim.tv_sec;
}

bool base_look_end(struct base_look *l, char *ret)
{
    unsigned char digest[32];
    struct timespec now;

    sha256_end(&l->sum, digest);
    str_hex(ret, digest, sizeof(digest));
    return clock_gettime(CLOCK_REALTIME, &now) == 0 && l->newest < now.tv_sec - SETTLED_S;
}

bool base_seen_find(int dir, const char *seen, char *ret_digest)
{
    char text[TEXT_LEN + 1];

    if (file_read_start(dir, SEEN_NAME, text, sizeof(text)) != TEXT_LEN ||
        memcmp(text, seen, 64) != 0 || text[64] != ' ' ||
        strspn(text + 65, "0123456789abcdef") != 64 || text[TEXT_LEN - 1] != '\n')
        return false;
    text[TEXT_LEN - 1] = '\0';
    memcpy(ret_digest, text + 65, 65);
    return faccessat(dir, ret_digest, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void base_seen_keep(int dir, const char *seen, const char *digest)
{
    char text[TEXT_LEN + 1];
    AUTO_CLOSE int fd =
        openat(dir, SEEN_NEW_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    (void) snprintf(text, sizeof(text), "%.64s %.64s\n", seen, digest);
    if (fd < 0 || file_write_all(fd, text, TEXT_LEN) != 0 ||
        renameat(dir, SEEN_NEW_NAME, dir, SEEN_NAME) != 0)
        (void) unlinkat(dir, SEEN_NEW_NAME, 0); /* the base is made anew next time */
}
