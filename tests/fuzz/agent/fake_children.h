/* fake_children.h - stands in for what the agent does by other processes: commands are `cat` or nothing, and file
 * calls run in this process, on a small tree that is the whole file system to them. */
#ifndef FUZZ_FAKE_CHILDREN_H
#define FUZZ_FAKE_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>

/* Once, at the start. */
void fake_children_init(void);
/* Before each input: the tree as it was; `seed` decides how answers are cut. */
void fake_children_begin(uint64_t seed);
/* Whether a file call still has something to say. */
bool fake_children_are_busy(void);

#endif
