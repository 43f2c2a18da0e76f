/* roff.c - writes the requests of man(7), with what is special in text escaped. */
#include "dist/man/roff.h"

#include <ctype.h>
#include <string.h>

#include "sandpool/version.h"

static void put_text(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\')
            buf_puts(out, "\\e");
        else if (text[i] == '-')
            buf_puts(out, "\\-"); /* one that can be copied into a shell */
        else if (text[i] == '\'' && i == 0)
            buf_puts(out, "\\(aq");
        else if (text[i] == '.' && i == 0)
            buf_puts(out, "\\&.");
        else
            buf_putc(out, text[i]);
    }
}

void roff_line(struct buf *out, const char *text, size_t len)
{
    put_text(out, text, len);
    buf_putc(out, '\n');
}

void roff_page(struct buf *out, const char *name, unsigned section, const char *summary)
{
    buf_puts(out, ".TH \"");
    for (const char *c = name; *c != '\0'; c++)
        buf_putc(out, (char) toupper((unsigned char) *c));
    buf_printf(out, "\" %u \"\" \"sandpool %s\"\n", section, SANDPOOL_VERSION);
    buf_puts(out, ".nh\n.ad l\n");
    roff_section(out, "NAME");
    put_text(out, name, strlen(name));
    buf_puts(out, " \\- ");
    roff_line(out, summary, strlen(summary));
}

void roff_section(struct buf *out, const char *title)
{
    buf_printf(out, ".SH %s\n", title);
}

void roff_text(struct buf *out, const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");

        roff_line(out, text, len);
        text += len + (text[len] == '\n');
    }
}

void roff_paragraph(struct buf *out, const char *text)
{
    buf_puts(out, ".PP\n");
    roff_text(out, text);
}

void roff_term(struct buf *out, const char *term, size_t len)
{
    buf_puts(out, ".TP\n\\fB");
    put_text(out, term, len);
    buf_puts(out, "\\fR\n");
}

void roff_example_begin(struct buf *out)
{
    buf_puts(out, ".RS 2\n.nf\n");
}

void roff_example_end(struct buf *out)
{
    buf_puts(out, ".fi\n.RE\n");
}

void roff_see_also(struct buf *out, const char *const *names)
{
    roff_section(out, "SEE ALSO");
    for (size_t i = 0; names[i] != NULL; i++) {
        const char *section = strchr(names[i], '(');
        size_t len = section != NULL ? (size_t) (section - names[i]) : strlen(names[i]);

        buf_puts(out, "\\fB");
        put_text(out, names[i], len);
        buf_printf(out, "\\fR%s%s\n", names[i] + len, names[i + 1] != NULL ? "," : "");
    }
    roff_paragraph(out, "The documentation is in /usr/share/doc/sandpool.");
}
