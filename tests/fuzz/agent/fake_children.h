/* fake_children.h - replaces what the agent does by other processes: commands are `cat` or nothing,
 * and file calls run in this process, on a small tree that is their whole file system. */
#ifndef FUZZ_FAKE_CHILDREN_H
#define FUZZ_FAKE_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>

/* Once, at the start. */
void fake_children_init(void);
/* Before each input: restores the tree; `seed` decides how answers are split. */
void fake_children_begin(uint64_t seed);
/* Whether a file call has more output. */
bool fake_children_are_busy(void);

#endif
