/* frame.h - pieces of bytes between the agent and a helper, in both directions: a stream that has no known length
 * ends with a frame that says so, and one that ends without it was broken off. */
#ifndef AGENT_FILE_FRAME_H
#define AGENT_FILE_FRAME_H

#include <stdint.h>

enum file_frame_kind { FILE_FRAME_DATA = 1, FILE_FRAME_END, FILE_FRAME_COUNT };

struct file_frame {
    uint32_t kind;
    uint32_t len; /* of the bytes behind it: of the file, or with the end of an upload its path */
};

#endif
