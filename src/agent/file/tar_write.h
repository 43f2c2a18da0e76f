/* tar_write.h - headers of a tar archive: ustar, with pax headers where that has no room. GNU tar, bsdtar and Python
 * read it. */
#ifndef AGENT_FILE_TAR_WRITE_H
#define AGENT_FILE_TAR_WRITE_H

#include <sys/stat.h>

#include "agent/file/tar_format.h"
#include "base/buf.h"

/* Appends the header of an entry. `link` is NULL, or the target of a link; a directory's name gets a slash. Only
 * a TAR_FILE has data: st_size bytes, then tar_padding() zeros. */
void tar_put_header(struct buf *out, char type, const char *name, const char *link,
                    const struct stat *st);
/* What every archive ends with. */
void tar_put_end(struct buf *out);

#endif
