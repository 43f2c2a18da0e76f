/* man_program.c - the page of a program from what its --help prints: "usage: ...", paragraphs, and lists whose lines
 * begin with two spaces and a term. */
#include <string.h>

#include "base/str.h"
#include "dist/man/pages.h"
#include "dist/man/roff.h"

static bool is_indented(const char *line)
{
    return line[0] == ' ' && line[1] == ' ' && line[2] != '\0';
}

/* Where the term of a list's line ends: before two spaces. NULL: there is no term, the line is an example. */
static const char *end_of_term(const char *term, size_t len)
{
    for (size_t i = 1; i + 2 < len; i++) {
        if (term[i] == ' ' && term[i + 1] == ' ')
            return term + i;
    }
    return NULL;
}

/* A line of a list: a term with its text, or more text of the term above. */
static void put_item(const char *line, size_t len, struct buf *out)
{
    size_t skip = strspn(line, " ");
    const char *text = line + skip;
    const char *end;

    len -= skip;
    end = end_of_term(text, len);
    if (skip > 8 || (end == NULL && text[0] != '-')) {
        roff_line(out, text, len);
        return;
    }
    if (end == NULL)
        end = text + len;
    roff_term(out, text, (size_t) (end - text));
    len -= (size_t) (end - text);
    skip = strspn(end, " ");
    if (len > skip)
        roff_line(out, end + skip, len - skip);
}

/* Whether a block of indented lines is a list; else these are examples. */
static bool is_list(const char *block)
{
    const char *text = block + strspn(block, " ");

    return text[0] == '-' || end_of_term(text, strcspn(text, "\n")) != NULL;
}

/* Lines up to a blank one; returns what is behind it. */
static const char *put_block(const char *block, struct buf *out)
{
    bool has_items = is_indented(block) && is_list(block);
    bool is_example = is_indented(block) && !has_items;

    if (is_example)
        roff_example_begin(out);
    while (*block != '\0' && *block != '\n') {
        size_t len = strcspn(block, "\n");
        size_t skip = is_example ? 2 : 0;

        if (has_items)
            put_item(block, len, out);
        else
            roff_line(out, block + skip, len - skip);
        block += len + (block[len] == '\n');
    }
    if (is_example)
        roff_example_end(out);
    return block + strspn(block, "\n");
}

void man_program(const char *name, unsigned section, const char *help, struct buf *out)
{
    static const char *const others[] = {"sandpool(1)", "sandpoold(8)", "sandpool.yaml(5)", NULL};
    const char *rest = strchr(help, '\n');
    struct buf summary;
    size_t len;

    assert(strncmp(help, "usage: ", 7) == 0 && rest != NULL);
    rest += strspn(rest, "\n");
    buf_init(&summary, 512);
    len = strcspn(rest, ".:\n");
    buf_append(&summary, rest, len);
    roff_page(out, name, section, buf_str(&summary));
    buf_fini(&summary);
    roff_section(out, "SYNOPSIS");
    roff_line(out, help + 7, strcspn(help + 7, "\n"));
    roff_section(out, "DESCRIPTION");
    rest = put_block(rest, out);
    while (*rest != '\0') {
        if (!is_indented(rest) || !is_list(rest))
            buf_puts(out, ".PP\n");
        rest = put_block(rest, out);
    }
    roff_see_also(out, others);
}
