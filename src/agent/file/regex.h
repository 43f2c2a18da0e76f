/* regex.h - patterns for lines. The syntax is that of POSIX extended expressions plus common
 * additions: \d \w \s \b \t, escapes inside brackets, (?:...), (?i) at the start, lazy
 * quantifiers. Look-around and back-references are refused, the latter because matching them can
 * take exponential time. Bytes are compared: `.` is one byte, and case means ASCII.
 *
 * A match cannot be interrupted. What bounds it: lines of FILE_LINE_MAX, patterns of REGEX_LEN_MAX
 * that repeat their parts at most REGEX_COST_MAX times in all. */
#ifndef AGENT_FILE_REGEX_H
#define AGENT_FILE_REGEX_H

#include <regex.h>

#include "base/buf.h"
#include "base/err.h"

enum { REGEX_LEN_MAX = 1024, REGEX_COST_MAX = 300 };

enum {
    REGEX_FIXED = 1 << 0,
    REGEX_ICASE = 1 << 1,
    REGEX_LINES = 1 << 2, /* for several lines at once: `.` and inverse sets match line ends, too */
};

struct file_regex {
    regex_t re;
    struct buf text; /* translated, or the fixed text */
    unsigned flags;
    size_t budget; /* bytes until the automaton is rebuilt */
    size_t budget_max;
    bool is_built;
};

/* SP_INVALID_FIELD when the pattern cannot be used. */
MUST_CHECK int file_regex_init(struct file_regex *r, const char *pattern, unsigned flags,
                               struct err *err);
void file_regex_fini(struct file_regex *r);
/* There must be a NUL somewhere behind the line. */
bool file_regex_match(struct file_regex *r, const char *line, size_t len);

#endif
