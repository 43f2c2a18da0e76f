/* tar_write.h - headers of a tar archive: ustar, with pax headers where that has no room. GNU tar, bsdtar and Python
 * read it. */
#ifndef BASE_TAR_WRITE_H
#define BASE_TAR_WRITE_H

#include <sys/stat.h>

#include "base/buf.h"
#include "base/tar_format.h"

/* Appends the header of an entry. `link` is NULL, or the target of a link; a directory's name gets a slash. Only
 * a TAR_FILE has data: st_size bytes, then tar_padding() zeros. */
void tar_put_header(struct buf *out, char type, const char *name, const char *link,
                    const struct stat *st);
/* The same with more records for its pax header, which tar_put_record() has made. */
void tar_put_entry(struct buf *out, char type, const char *name, const char *link,
                   const struct stat *st, const struct buf *records);
void tar_put_record(struct buf *out, const char *key, const void *value, size_t len);
/* What every archive ends with. */
void tar_put_end(struct buf *out);

#endif
