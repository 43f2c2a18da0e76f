/* yaml.c - the only file that uses the YAML library: from text to a small tree of nodes with
 * positions. Features that a configuration does not need are refused here, so that later code need
 * not handle them: anchors and aliases, tags, several documents, duplicate keys, deep or wide
 * trees. */
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/mem.h"
#include "config/schema.h"

enum { DEPTH_MAX = 8, MEMBERS_MAX = 256 };

struct reader {
    yaml_parser_t parser;
    struct config_problems *problems;
    struct config_node *root;
    struct config_node *open; /* collection being filled */
    unsigned depth;
    char *key; /* read, its value not yet */
    unsigned key_line, key_column;
    bool is_ended;
};

struct config_node *config_node_free(struct config_node *n)
{
    while (n != NULL) {
        struct config_node *next = n->next;

        (void) config_node_free(n->first); /* at most DEPTH_MAX deep */
        free(n->key);
        free(n->text);
        free(n);
        n = next;
    }
    return NULL;
}

const struct config_node *config_node_get(const struct config_node *n, const char *key, size_t len)
{
    for (const struct config_node *c = n->first; c != NULL; c = c->next) {
        if (c->key != NULL && strlen(c->key) == len && memcmp(c->key, key, len) == 0)
            return c;
    }
    return NULL;
}

/* Always false, so that a caller can report and return in one line. */
static bool refuse(struct reader *r, const yaml_mark_t *mark, const char *text)
{
    config_problem(r->problems, (unsigned) mark->line + 1, (unsigned) mark->column + 1, "%s", text);
    return false;
}

static bool is_null_text(const char *s)
{
    return s[0] == '\0' || strcmp(s, "~") == 0 || strcmp(s, "null") == 0;
}

static struct config_node *add_node(struct reader *r, enum config_node_kind kind,
                                    const yaml_mark_t *mark)
{
    struct config_node *n = xcalloc(1, sizeof(*n));

    n->kind = kind;
    n->line = (unsigned) mark->line + 1;
    n->column = (unsigned) mark->column + 1;
    n->key_line = n->line;
    n->key_column = n->column;
    if (r->key != NULL) {
        n->key = r->key;
        n->key_line = r->key_line;
        n->key_column = r->key_column;
        r->key = NULL;
    }
    n->parent = r->open;
    if (r->open == NULL) {
        r->root = n;
        return n;
    }
    if (r->open->last != NULL)
        r->open->last->next = n;
    else
        r->open->first = n;
    r->open->last = n;
    r->open->count++;
    return n;
}

static bool is_key_next(const struct reader *r)
{
    return r->open != NULL && r->open->kind == CONFIG_NODE_MAPPING && r->key == NULL;
}

static bool take_key(struct reader *r, const yaml_mark_t *mark, const char *text)
{
    const struct config_node *old = config_node_get(r->open, text, strlen(text));

    if (old != NULL) {
        config_problem(r->problems, (unsigned) mark->line + 1, (unsigned) mark->column + 1,
                       "'%.64s' is given twice, first in line %u", text, old->key_line);
        return false;
    }
    r->key = xstrdup(text);
    r->key_line = (unsigned) mark->line + 1;
    r->key_column = (unsigned) mark->column + 1;
    return true;
}

static bool has_room(struct reader *r, const yaml_mark_t *mark)
{
    if (r->open != NULL && r->open->count >= MEMBERS_MAX)
        return refuse(r, mark, "too many entries in one place, 256 are allowed");
    return true;
}

static bool take_scalar(struct reader *r, const yaml_event_t *ev)
{
    const char *text = (const char *) ev->data.scalar.value;
    struct config_node *n;

    if (ev->data.scalar.anchor != NULL)
        return refuse(r, &ev->start_mark, "anchors are not supported: write the value out");
    if (ev->data.scalar.tag != NULL)
        return refuse(r, &ev->start_mark, "tags are not supported");
    if (strlen(text) != ev->data.scalar.length)
        return refuse(r, &ev->start_mark, "a NUL character is not allowed");
    if (!has_room(r, &ev->start_mark))
        return false;
    if (is_key_next(r))
        return take_key(r, &ev->start_mark, text);
    n = add_node(r, CONFIG_NODE_SCALAR, &ev->start_mark);
    n->text = xstrdup(text);
    n->is_null = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && is_null_text(text);
    return true;
}

static bool open_node(struct reader *r, enum config_node_kind kind, const yaml_event_t *ev,
                      const void *anchor, const void *tag)
{
    if (anchor != NULL)
        return refuse(r, &ev->start_mark, "anchors are not supported: write the value out");
    if (tag != NULL)
        return refuse(r, &ev->start_mark, "tags are not supported");
    if (is_key_next(r))
        return refuse(r, &ev->start_mark, "a key must be a word");
    if (r->depth == DEPTH_MAX)
        return refuse(r, &ev->start_mark, "nested too deeply");
    if (!has_room(r, &ev->start_mark))
        return false;
    r->open = add_node(r, kind, &ev->start_mark);
    r->depth++;
    return true;
}

static bool close_node(struct reader *r)
{
    assert(r->open != NULL && r->depth > 0);
    r->open = r->open->parent;
    r->depth--;
    return true;
}

static bool take_event(struct reader *r, const yaml_event_t *ev)
{
    switch (ev->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->root != NULL)
            return refuse(r, &ev->start_mark, "only one document is allowed in the file");
        if (ev->data.document_start.tag_directives.start !=
            ev->data.document_start.tag_directives.end)
            return refuse(r, &ev->start_mark, "tags are not supported");
        return true;
    case YAML_ALIAS_EVENT:
        return refuse(r, &ev->start_mark, "aliases are not supported: write the value out");
    case YAML_SCALAR_EVENT:
        return take_scalar(r, ev);
    case YAML_SEQUENCE_START_EVENT:
        return open_node(r, CONFIG_NODE_SEQUENCE, ev, ev->data.sequence_start.anchor,
                         ev->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return open_node(r, CONFIG_NODE_MAPPING, ev, ev->data.mapping_start.anchor,
                         ev->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_node(r);
    case YAML_STREAM_END_EVENT:
        r->is_ended = true;
        return true;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return true;
    }
    return true;
}

/* The library counts lines and columns from 0. Encoding errors have only an offset. */
static void report_syntax(struct reader *r, const char *text, size_t len)
{
    const yaml_parser_t *p = &r->parser;
    unsigned line = (unsigned) p->problem_mark.line + 1;
    unsigned column = (unsigned) p->problem_mark.column + 1;

    if (p->error == YAML_READER_ERROR) {
        line = 1;
        column = 1;
        for (size_t i = 0; i < p->problem_offset && i < len; i++) {
            column = text[i] == '\n' ? 1 : column + 1;
            line += text[i] == '\n';
        }
    }
    config_problem(r->problems, line, column, "%s",
                   p->problem != NULL ? p->problem : "this is not YAML");
}

struct config_node *config_yaml_parse(const char *text, size_t len, struct config_problems *p)
{
    struct reader r = {.problems = p};
    bool is_good = true;

    if (yaml_parser_initialize(&r.parser) == 0) {
        config_problem(p, 1, 1, "no memory to read it");
        return NULL;
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *) text, len);
    while (is_good && !r.is_ended) {
        yaml_event_t ev;

        if (yaml_parser_parse(&r.parser, &ev) == 0) {
            report_syntax(&r, text, len);
            break;
        }
        is_good = take_event(&r, &ev);
        yaml_event_delete(&ev);
    }
    yaml_parser_delete(&r.parser);
    free(r.key);
    if (p->count > 0)
        return config_node_free(r.root);
    return r.root;
}
