/* send.c - opens a file, announces what it is, and has the kernel pass its bytes to the agent. A file that gets
 * shorter meanwhile breaks the answer off. */
#include "agent/file/send.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/helper.h"
#include "agent/core/plain.h"
#include "agent/file/byte_range.h"
#include "base/cleanup.h"

static const char operation[] = "read";

enum { KERNEL_FILE_MAX = 8 * 1024 * 1024 };

void file_tag_print(char *dst, const struct file_head *head)
{
    (void) snprintf(dst, FILE_TAG_LEN, "\"%llx-%llx-%llx\"", (unsigned long long) head->mtime_s,
                    (unsigned long long) head->mtime_ns, (unsigned long long) head->size);
}

/* Files of the kernel have no size until they are read. */
static void learn_size(int fd, struct stat *st)
{
    char data[4096];
    off_t size = 0;

    while (size < KERNEL_FILE_MAX) {
        ssize_t n = pread(fd, data, sizeof(data), size);

        if (n <= 0)
            break;
        size += n;
    }
    st->st_size = size;
}

static void fill_head(struct file_head *head, const struct stat *st)
{
    file_head_init(head, 200, 0);
    head->form = FILE_FORM_SIZED;
    head->size = (uint64_t) st->st_size;
    head->mtime_s = st->st_mtim.tv_sec;
    head->mtime_ns = (uint32_t) st->st_mtim.tv_nsec;
    head->mode = st->st_mode & 07777;
    head->uid = st->st_uid;
    head->gid = st->st_gid;
}

int file_send_run(const struct file_send *s, struct file_wire *wire, struct file_error *error,
                  uint64_t *ret_size)
{
    struct byte_range range;
    struct file_head head;
    struct stat st;
    char tag[FILE_TAG_LEN];
    AUTO_CLOSE int file = plain_open_file(AT_FDCWD, s->path, O_RDONLY, 0, &st);
    bool want_range;

    if (file < 0)
        return file_error_sys(error, operation, s->path, errno);
    if (st.st_size == 0)
        learn_size(file, &st);
    fill_head(&head, &st);
    file_tag_print(tag, &head);
    *ret_size = head.size;
    want_range = s->only_if[0] == '\0' || strcmp(s->only_if, tag) == 0;
    if (!byte_range_parse(&range, want_range ? s->range : "", head.size))
        return file_error_set(error, 416, "no_range", operation, s->path,
                              "the file has no such range");
    if (s->unless[0] != '\0' && (strcmp(s->unless, "*") == 0 || strstr(s->unless, tag) != NULL)) {
        head.status = 304;
        head.form = FILE_FORM_WHOLE;
    } else {
        head.status = range.is_partial ? 206 : 200;
        head.is_partial = range.is_partial;
        head.start = range.start;
        head.end = range.end;
        head.len = s->is_head ? 0 : range.end - range.start;
    }
    /* When this fails, the agent notices what is missing. */
    if (helper_send(wire->fd, &head, sizeof(head)) && head.len > 0)
        (void) !helper_send_file(wire->fd, file, head.start, head.len);
    return SP_OK;
}
