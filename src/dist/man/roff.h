/* roff.h - the few requests of man(7) that the pages are made of. */
#ifndef DIST_MAN_ROFF_H
#define DIST_MAN_ROFF_H

#include "base/buf.h"

/* The head of a page, and its NAME section. */
void roff_page(struct buf *out, const char *name, unsigned section, const char *summary);
void roff_section(struct buf *out, const char *title);
/* The first paragraph of a section: words are filled into lines. */
void roff_text(struct buf *out, const char *text);
/* A further one. */
void roff_paragraph(struct buf *out, const char *text);
/* Text on a line of its own, as it is, whatever its first character means. */
void roff_line(struct buf *out, const char *text, size_t len);
/* A term; what explains it follows as lines. */
void roff_term(struct buf *out, const char *term, size_t len);
/* Lines as they are, in a fixed font, between these two. */
void roff_example_begin(struct buf *out);
void roff_example_end(struct buf *out);
/* "name(1), other(5)": the last section of a page. The list ends with NULL. */
void roff_see_also(struct buf *out, const char *const *names);

#endif
