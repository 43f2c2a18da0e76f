/* deed.h - notes what a caller does with a box, for those who look at who holds it. */
#ifndef FRONT_DEED_H
#define FRONT_DEED_H

#include "engine/engine.h"
#include "http/http.h"

/* `verb` ends at the first byte that is no small letter. */
void front_note_deed(struct engine *e, const struct http_exchange *ex, struct box_id box,
                     const char *verb);

#endif
