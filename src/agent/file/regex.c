/* regex.c - translates a pattern to what regcomp() accepts, and computes its cost: the library
 * copies a part for each repetition, and keeps every state it has met. So the copies are limited
 * before it is called, and the automaton is rebuilt after some text. */
#include "agent/file/regex.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

enum { DEPTH_MAX = 32, STATES_BYTES = 64 * 1024 * 1024 };

struct translator {
    const char *p;
    struct buf *out;
    struct err *err;
    unsigned depth;
    uint64_t cost[DEPTH_MAX + 1]; /* of the groups that are open */
    uint64_t last;                /* of the part that a quantifier would repeat */
    unsigned flags;
};

static int refuse(struct translator *t, const char *why)
{
    return err_set(t->err, SP_INVALID_FIELD, "pattern: %s", why);
}

static int add_cost(struct translator *t, uint64_t n)
{
    t->cost[t->depth] += n;
    return t->cost[t->depth] > REGEX_COST_MAX ? refuse(t, "it repeats too much") : SP_OK;
}

static int put_atom(struct translator *t, const char *text, size_t len)
{
    buf_append(t->out, text, len);
    t->last = 1;
    return add_cost(t, 1);
}

static int put_literal(struct translator *t, char c)
{
    const char text[] = {'\\', c};

    if (strchr(".[]()*+?{}|^$\\", c) != NULL)
        return put_atom(t, text, 2);
    return put_atom(t, &c, 1);
}

/* The character that a letter escape stands for; '\0' for none. */
static char control_of(char c)
{
    static const char names[] = "tnrfv";
    static const char values[] = "\t\n\r\f\v";
    const char *at = c != '\0' ? strchr(names, c) : NULL;

    return at != NULL ? values[at - names] : '\0';
}

static int put_escape(struct translator *t)
{
    char c = t->p[1];

    t->p += 2;
    if (c == '\0')
        return refuse(t, "it ends with a backslash");
    if (isdigit((unsigned char) c))
        return refuse(t, "back-references are not supported");
    if (c == 'd')
        return put_atom(t, "[0-9]", 5);
    if (c == 'D')
        return put_atom(t, "[^0-9]", 6);
    if (strchr("wWsSbB", c) != NULL) {
        const char text[] = {'\\', c};

        return put_atom(t, text, 2);
    }
    if (c == 'A')
        return put_atom(t, "^", 1);
    if (c == 'z' || c == 'Z')
        return put_atom(t, "$", 1);
    if (control_of(c) != '\0')
        return put_literal(t, control_of(c));
    if (isalpha((unsigned char) c))
        return refuse(t, "unknown escape");
    return put_literal(t, c);
}

/* --- brackets: no escapes there, and a character of several bytes becomes an alternative --- */

struct set {
    struct buf plain; /* what goes into the brackets */
    struct buf wide;  /* "|x|y" */
    bool has_close;   /* ']' must come first, */
    bool has_caret;   /* '^' not first */
    bool has_dash;    /* and '-' last */
};

static int add_escape_to_set(struct translator *t, struct set *s)
{
    char c = t->p[1];
    char control = control_of(c);

    t->p += 2;
    if (c == 'd')
        buf_puts(&s->plain, "0-9");
    else if (c == 'w')
        buf_puts(&s->plain, "[:alnum:]_");
    else if (c == 's')
        buf_puts(&s->plain, "[:space:]");
    else if (control != '\0')
        buf_putc(&s->plain, control);
    else if (c == ']')
        s->has_close = true;
    else if (c == '-')
        s->has_dash = true;
    else if (c == '^')
        s->has_caret = true;
    else if (c == '\0' || isalnum((unsigned char) c))
        return refuse(t, "unknown escape in brackets");
    else if (c == '[')
        buf_puts(&s->plain, "[.[.]");
    else
        buf_putc(&s->plain, c);
    return SP_OK;
}

static int add_to_set(struct translator *t, struct set *s)
{
    const char *p = t->p;
    size_t len = str_utf8_len(p);

    if (*p == '\\')
        return add_escape_to_set(t, s);
    if (len > 1) {
        if (p[len] == '-' && p[len + 1] != ']')
            return refuse(t, "ranges are for ASCII characters");
        buf_putc(&s->wide, '|');
        buf_append(&s->wide, p, len);
        t->p += len;
    } else if (p[0] == '[' && p[1] == ':' && strstr(p, ":]") != NULL) {
        len = (size_t) (strstr(p, ":]") - p) + 2;
        buf_append(&s->plain, p, len);
        t->p += len;
    } else if (p[0] == '-') {
        s->has_dash = true;
        t->p++;
    } else if (p[1] == '-' && p[2] != ']' && p[2] != '\0') {
        if (p[2] == '\\' || p[2] == '[' || (p[2] & 0x80) != 0)
            return refuse(t, "ranges are for plain ASCII characters");
        buf_append(&s->plain, p, 3);
        t->p += 3;
    } else {
        if (*p == '[')
            buf_puts(&s->plain, "[.[.]");
        else if (*p == '^')
            s->has_caret = true;
        else
            buf_putc(&s->plain, *p);
        t->p++;
    }
    return SP_OK;
}

static void print_set(const struct set *s, bool is_inverse, struct buf *out)
{
    bool has_plain = s->plain.len > 0 || s->has_close || s->has_caret || s->has_dash;
    bool is_only_caret = s->plain.len == 0 && !s->has_close && s->has_caret;

    if (s->wide.len > 0)
        buf_putc(out, '(');
    if (is_only_caret && !is_inverse) {
        buf_puts(out, s->has_dash ? "[-^]" : "\\^"); /* '^' cannot stand first */
    } else if (has_plain) {
        buf_puts(out, is_inverse ? "[^" : "[");
        if (s->has_close)
            buf_putc(out, ']');
        buf_append(out, buf_str(&s->plain), s->plain.len);
        if (s->has_caret)
            buf_putc(out, '^');
        if (s->has_dash)
            buf_putc(out, '-');
        buf_putc(out, ']');
    }
    if (s->wide.len > 0) {
        buf_puts(out, buf_str(&s->wide) + (has_plain ? 0 : 1));
        buf_putc(out, ')');
    }
}

static int put_set(struct translator *t)
{
    struct set s = {.has_close = false};
    bool is_inverse = t->p[1] == '^';
    int rc = SP_OK;

    buf_init(&s.plain, 8 * (size_t) REGEX_LEN_MAX);
    buf_init(&s.wide, 2 * (size_t) REGEX_LEN_MAX);
    t->p += is_inverse ? 2 : 1;
    if (*t->p == ']') {
        s.has_close = true;
        t->p++;
    }
    while (rc == SP_OK && *t->p != ']' && *t->p != '\0')
        rc = add_to_set(t, &s);
    if (rc == SP_OK && *t->p == '\0')
        rc = refuse(t, "a bracket is not closed");
    else if (rc == SP_OK && is_inverse && s.wide.len > 0)
        rc = refuse(t, "an inverse set is for ASCII characters");
    if (rc == SP_OK) {
        bool is_wider = is_inverse && (t->flags & REGEX_LINES) != 0;

        if (is_wider && memchr(buf_str(&s.plain), '\n', s.plain.len) == NULL)
            buf_puts(t->out, "(\n|");
        print_set(&s, is_inverse, t->out);
        if (is_wider && memchr(buf_str(&s.plain), '\n', s.plain.len) == NULL)
            buf_putc(t->out, ')');
        t->p++;
        t->last = 1;
        rc = add_cost(t, 1);
    }
    buf_fini(&s.plain);
    buf_fini(&s.wide);
    return rc;
}

/* --- groups and quantifiers --- */

static int open_group(struct translator *t)
{
    const char *name_end;

    t->p++;
    if (*t->p == '?') {
        if (t->p[1] == ':') {
            t->p += 2;
        } else if ((t->p[1] == 'P' && t->p[2] == '<') ||
                   (t->p[1] == '<' && t->p[2] != '=' && t->p[2] != '!')) {
            name_end = strchr(t->p, '>');
            if (name_end == NULL)
                return refuse(t, "a group's name does not end");
            t->p = name_end + 1;
        } else {
            return refuse(t, "look-around and inline flags are not supported");
        }
    }
    if (t->depth == DEPTH_MAX)
        return refuse(t, "groups are nested too deep");
    buf_putc(t->out, '(');
    t->depth++;
    t->cost[t->depth] = 0;
    t->last = 0;
    return SP_OK;
}

static int close_group(struct translator *t)
{
    uint64_t cost = t->cost[t->depth];

    t->p++;
    if (t->depth == 0)
        return refuse(t, "a group is closed that is not open");
    buf_putc(t->out, ')');
    t->depth--;
    t->last = MAX_OF(cost, 1U);
    return add_cost(t, t->last);
}

static void skip_lazy(struct translator *t)
{
    if (*t->p == '?' || *t->p == '+')
        t->p++;
}

/* {2} {2,} {2,5} {,5}; anything else is a brace. */
static int put_interval(struct translator *t)
{
    const char *p = t->p + 1;
    uint64_t low = 0;
    uint64_t high = 0;
    bool has_comma;
    bool is_interval = isdigit((unsigned char) *p) || *p == ',';

    for (; isdigit((unsigned char) *p) && low < 100000; p++)
        low = low * 10 + (uint64_t) (*p - '0');
    has_comma = *p == ',';
    for (p += has_comma ? 1 : 0; isdigit((unsigned char) *p) && high < 100000; p++)
        high = high * 10 + (uint64_t) (*p - '0');
    if (!is_interval || *p != '}' || (has_comma && p[-1] == ',' && t->p[1] == ',')) {
        t->p++;
        return put_literal(t, '{');
    }
    high = MAX_OF(low, high);
    buf_append(t->out, t->p, (size_t) (p + 1 - t->p));
    t->p = p + 1;
    skip_lazy(t);
    if (high > REGEX_COST_MAX)
        return refuse(t, "it repeats too much");
    t->last *= MAX_OF(high, 1U);
    return add_cost(t, t->last);
}

static int put_next(struct translator *t)
{
    size_t len = str_utf8_len(t->p);
    char c = *t->p;

    if (c == '\\')
        return put_escape(t);
    if (c == '[')
        return put_set(t);
    if (c == '(')
        return open_group(t);
    if (c == ')')
        return close_group(t);
    if (c == '{')
        return put_interval(t);
    if (c == '*' || c == '+' || c == '?') {
        buf_putc(t->out, c);
        t->p++;
        skip_lazy(t);
        return SP_OK;
    }
    if (len > 1) {
        buf_putc(t->out, '('); /* a quantifier is for all its bytes */
        buf_append(t->out, t->p, len);
        buf_putc(t->out, ')');
        t->p += len;
        t->last = len;
        return add_cost(t, len);
    }
    t->p++;
    if (c == '.' && (t->flags & REGEX_LINES) != 0)
        return put_atom(t, "(.|\n)", 5);
    return c == '}' || c == ']' ? put_literal(t, c) : put_atom(t, &c, 1);
}

static int build(struct file_regex *r, struct err *err)
{
    int flags = REG_EXTENDED | REG_NOSUB | ((r->flags & REGEX_ICASE) != 0 ? REG_ICASE : 0) |
                ((r->flags & REGEX_LINES) != 0 ? REG_NEWLINE : 0);
    int rc = regcomp(&r->re, buf_str(&r->text), flags);
    char why[120];

    r->budget = r->budget_max;
    r->is_built = rc == 0;
    if (rc == 0)
        return SP_OK;
    (void) regerror(rc, &r->re, why, sizeof(why));
    return err_set(err, SP_INVALID_FIELD, "pattern: %s", why);
}

static int translate(struct file_regex *r, const char *pattern, struct err *err)
{
    struct translator t = {.p = pattern, .out = &r->text, .err = err, .flags = r->flags};
    int rc = SP_OK;

    if (strncmp(pattern, "(?i)", 4) == 0) {
        r->flags |= REGEX_ICASE;
        t.p += 4;
    }
    /* Anchored, so that the library scans the line once, not again from each byte. */
    buf_puts(&r->text, (r->flags & REGEX_LINES) != 0 ? "\\`(.|\n)*(" : "^[^\n]*(");
    while (rc == SP_OK && *t.p != '\0')
        rc = put_next(&t);
    buf_putc(&r->text, ')');
    if (rc == SP_OK && t.depth > 0)
        rc = refuse(&t, "a group is not closed");
    if (rc == SP_OK && buf_failed(&r->text))
        rc = refuse(&t, "it is too long");
    if (rc == SP_OK) {
        size_t state = 64 * (t.cost[0] + 32); /* about what one takes */

        r->budget_max = STATES_BYTES / state;
        rc = build(r, err);
    }
    return rc;
}

int file_regex_init(struct file_regex *r, const char *pattern, unsigned flags, struct err *err)
{
    int rc = SP_OK;

    memset(r, 0, sizeof(*r));
    r->flags = flags;
    buf_init(&r->text, 16 * (size_t) REGEX_LEN_MAX);
    if (str_is_empty(pattern) || strlen(pattern) > REGEX_LEN_MAX)
        return err_set(err, SP_INVALID_FIELD, "a pattern has 1 to %d characters", REGEX_LEN_MAX);
    if ((flags & REGEX_FIXED) != 0)
        buf_puts(&r->text, pattern);
    else
        rc = translate(r, pattern, err);
    if (rc != SP_OK)
        file_regex_fini(r);
    return rc;
}

void file_regex_fini(struct file_regex *r)
{
    if (r->is_built)
        regfree(&r->re);
    r->is_built = false;
    buf_fini(&r->text);
}

static bool has_text(const struct file_regex *r, const char *line, size_t len)
{
    if ((r->flags & REGEX_ICASE) == 0)
        return memmem(line, len, r->text.data, r->text.len) != NULL;
    for (size_t i = 0; i + r->text.len <= len; i++) {
        if (tolower((unsigned char) line[i]) == tolower((unsigned char) r->text.data[0]) &&
            strncasecmp(line + i, r->text.data, r->text.len) == 0)
            return true;
    }
    return false;
}

bool file_regex_match(struct file_regex *r, const char *line, size_t len)
{
    regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t) len};

    if ((r->flags & REGEX_FIXED) != 0)
        return has_text(r, line, len);
    if (r->budget < len) {
        regfree(&r->re);
        r->is_built = false;
        if (build(r, NULL) != SP_OK)
            return false; /* it was built before: memory is gone */
    }
    if (!r->is_built)
        return false;
    r->budget -= MIN_OF(r->budget, len);
    return regexec(&r->re, line, 1, &range, REG_STARTEND) == 0;
}
