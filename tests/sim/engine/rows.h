/* rows.h - what one write does to the rows on the disk. */
#ifndef WALK_ROWS_H
#define WALK_ROWS_H

#include "store/store.h"

void rows_apply(const struct store_write *w);
/* How the write ended: an end that could not be written is executed without its row. */
void rows_note(const struct store_write *w, bool is_ok);

#endif
