/* tar_pack.h - a directory as a tar archive, streamed. In the helper; it blocks. */
#ifndef AGENT_FILE_TAR_PACK_H
#define AGENT_FILE_TAR_PACK_H

#include "agent/file/wire.h"

/* Names are relative to `path`, which has no entry itself. Links are packed as links, names of one file as hard links;
 * sockets, FIFOs and devices are left out and counted in the head of the answer. Sends the answer and returns SP_OK;
 * fills `error` when nothing was sent, also for a file that cannot be read. A file that vanishes later is left out; one that
 * gets shorter breaks the answer off. */
MUST_CHECK int tar_pack_run(struct file_wire *wire, const char *path, struct file_error *error);

#endif
