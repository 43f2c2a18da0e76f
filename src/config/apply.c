/* apply.c - from the tree to the configuration: finds the key of each node, replaces environment
 * variables, sets the value. It continues after a problem, so that one run of --check shows as many
 * problems as fit. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/schema.h"

enum { VALUE_MAX = 16 * 1024, NAME_MAX_LEN = 200 };

/* Where in the configuration a mapping of the file belongs. */
struct scope {
    struct config_problems *problems;
    void *object; /* struct config or struct config_profile */
    bool is_profile;
    char prefix[NAME_MAX_LEN]; /* "" or a section of the object */
    char shown[NAME_MAX_LEN];  /* the same in messages: "profiles.small.warm." */
};

static void apply_scalar(const struct scope *s, const struct config_key *k,
                         const struct config_node *n, const char *name)
{
    char why[CONFIG_WHY_MAX];
    struct buf text;
    bool is_set;

    buf_init(&text, VALUE_MAX);
    is_set = config_expand(n->is_null ? "" : n->text, &text, why);
    if (is_set && k->type == CONFIG_TYPE_MAP)
        is_set = config_map_add(k, s->object, n->key, buf_str(&text), why);
    else if (is_set)
        is_set = config_value_set(k, s->object, buf_str(&text), why);
    if (!is_set)
        config_problem(s->problems, n->line, n->column, "%s %s", name, why);
    buf_fini(&text);
}

static void apply_map(const struct scope *s, const struct config_key *k,
                      const struct config_node *n, const char *name)
{
    char member[NAME_MAX_LEN * 2 + 72];

    if (n->kind != CONFIG_NODE_MAPPING) {
        if (!n->is_null)
            config_problem(s->problems, n->line, n->column,
                           "%s must be a mapping of names to texts", name);
        return;
    }
    for (const struct config_node *c = n->first; c != NULL; c = c->next) {
        (void) snprintf(member, sizeof(member), "%s.%.64s", name, c->key);
        if (c->kind != CONFIG_NODE_SCALAR)
            config_problem(s->problems, c->line, c->column, "%s must be a text", member);
        else
            apply_scalar(s, k, c, member);
    }
}

/* A sequence is set as its items with commas between. */
static void apply_list(const struct scope *s, const struct config_key *k,
                       const struct config_node *n, const char *name)
{
    char why[CONFIG_WHY_MAX];
    struct buf text;

    if (n->kind == CONFIG_NODE_SCALAR) {
        apply_scalar(s, k, n, name);
        return;
    }
    buf_init(&text, VALUE_MAX);
    for (const struct config_node *c = n->first; c != NULL; c = c->next) {
        if (c->kind != CONFIG_NODE_SCALAR || n->kind != CONFIG_NODE_SEQUENCE) {
            config_problem(s->problems, c->line, c->column, "%s must be a list of words", name);
            break;
        }
        buf_putc(&text, ',');
        if (!config_expand(c->is_null ? "" : c->text, &text, why)) {
            config_problem(s->problems, c->line, c->column, "%s %s", name, why);
            break;
        }
    }
    if (!config_value_set(k, s->object, buf_str(&text), why))
        config_problem(s->problems, n->line, n->column, "%s %s", name, why);
    buf_fini(&text);
}

static void apply_key(const struct scope *s, const struct config_key *k,
                      const struct config_node *n, const char *name)
{
    if (k->type == CONFIG_TYPE_MAP)
        apply_map(s, k, n, name);
    else if (k->type == CONFIG_TYPE_LIST)
        apply_list(s, k, n, name);
    else if (n->kind != CONFIG_NODE_SCALAR)
        config_problem(s->problems, n->line, n->column, "%s must be a single value", name);
    else
        apply_scalar(s, k, n, name);
}

static void report_unknown(const struct scope *s, const struct config_node *n, const char *path)
{
    const char *now = s->is_profile ? NULL : config_renamed(path);
    struct buf near;

    if (now != NULL) {
        config_problem(s->problems, n->key_line, n->key_column, "'%s' is called '%s' now", path,
                       now);
        return;
    }
    buf_init(&near, NAME_MAX_LEN);
    if (config_suggest(s->is_profile, s->prefix, n->key, &near))
        config_problem(s->problems, n->key_line, n->key_column,
                       "unknown key '%s%.64s', did you mean '%s'?", s->shown, n->key,
                       buf_str(&near));
    else
        config_problem(s->problems, n->key_line, n->key_column, "unknown key '%s%.64s'", s->shown,
                       n->key);
    buf_fini(&near);
}

/* True when it is a mapping to walk; null is an empty one. */
static bool expect_mapping(struct config_problems *p, const struct config_node *n, const char *name)
{
    if (n->kind != CONFIG_NODE_MAPPING && !n->is_null)
        config_problem(p, n->line, n->column, "%s must be a mapping of keys to values", name);
    return n->kind == CONFIG_NODE_MAPPING;
}

/* A word for a section stands for its key "mode", and its other keys have their defaults. */
static bool apply_short_form(const struct scope *s, const char *section,
                             const struct config_node *n, const char *name)
{
    const struct config_key *mode = NULL;
    char path[NAME_MAX_LEN * 2 + 8];
    char why[CONFIG_WHY_MAX];
    size_t len = strlen(section);

    (void) snprintf(path, sizeof(path), "%s.mode", section);
    if (n->kind == CONFIG_NODE_SCALAR && !n->is_null)
        mode = config_key_find(s->is_profile, path);
    if (mode == NULL)
        return false;
    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        const char *own = config_key_name(k);

        if (config_key_is_profile(k) == s->is_profile && strncmp(own, section, len) == 0 &&
            own[len] == '.' && !config_value_set(k, s->object, k->def, why))
            assert(false && "a default is good");
    }
    apply_key(s, mode, n, name);
    return true;
}

static void apply_members(const struct scope *s, const struct config_node *mapping)
{
    for (const struct config_node *n = mapping->first; n != NULL; n = n->next) {
        struct scope inner = *s;
        const struct config_key *k;
        char path[NAME_MAX_LEN * 2];
        char name[NAME_MAX_LEN * 2];

        if (!s->is_profile && str_is_empty(s->prefix) && strcmp(n->key, "profiles") == 0)
            continue;
        (void) snprintf(path, sizeof(path), "%s%s%.64s", s->prefix,
                        str_is_empty(s->prefix) ? "" : ".", n->key);
        (void) snprintf(name, sizeof(name), "%s%.64s", s->shown, n->key);
        k = strchr(n->key, '.') == NULL ? config_key_find(s->is_profile, path) : NULL;
        if (k != NULL) {
            apply_key(s, k, n, name);
        } else if (config_section_exists(s->is_profile, path) && strchr(n->key, '.') == NULL) {
            if (apply_short_form(s, path, n, name))
                continue;
            str_copy_cut(inner.prefix, sizeof(inner.prefix), path);
            (void) snprintf(inner.shown, sizeof(inner.shown), "%.190s.", name);
            if (expect_mapping(s->problems, n, name))
                apply_members(&inner, n);
        } else {
            report_unknown(s, n, path);
        }
    }
}

static bool is_profile_name(const char *s)
{
    if (!str_is_name(s, CONFIG_NAME_MAX, "._-") || strchr("._-", s[0]) != NULL)
        return false;
    for (; *s != '\0'; s++) {
        if (*s >= 'A' && *s <= 'Z')
            return false;
    }
    return true;
}

/* The profiles that wait for the one that is being applied, because they extend it. */
struct chain {
    const struct config_node *node;
    const struct chain *above;
    unsigned depth;
};

static bool is_in_chain(const struct chain *chain, const struct config_node *n)
{
    for (; chain != NULL; chain = chain->above) {
        if (chain->node == n)
            return true;
    }
    return false;
}

/* "a -> b -> a", from the outermost on. */
static void print_chain(const struct chain *chain, struct buf *out)
{
    if (chain == NULL)
        return;
    print_chain(chain->above, out);
    buf_printf(out, "%.64s -> ", chain->node->key);
}

static void apply_profile(struct config *c, const struct config_node *all, struct chain *chain,
                          struct config_problems *p);

/* False: it could not be found out, which has been reported. `ret` is "" if none is extended. */
static bool find_base(const struct config_node *n, struct config_problems *p,
                      char ret[CONFIG_NAME_MAX + 1])
{
    const struct config_node *key = config_node_get(n, "extends", strlen("extends"));
    char why[CONFIG_WHY_MAX];
    struct buf text;
    bool is_good;

    ret[0] = '\0';
    if (key == NULL || key->kind != CONFIG_NODE_SCALAR || key->is_null)
        return true; /* what is wrong with it is reported with the other keys */
    buf_init(&text, VALUE_MAX);
    is_good =
        config_expand(key->text, &text, why) &&
        (str_is_empty(buf_str(&text)) ||
         (is_profile_name(buf_str(&text)) && str_copy(ret, CONFIG_NAME_MAX + 1, buf_str(&text))));
    if (!is_good)
        config_problem(p, key->line, key->column,
                       "profiles.%s.extends must be the name of a profile", n->key);
    buf_fini(&text);
    return is_good;
}

/* Applies the profile that `name` extends, if that has not been done. */
static bool apply_base(struct config *c, const struct config_node *all, struct chain *chain,
                       const char *name, struct config_problems *p)
{
    const struct config_node *n = chain->node;
    const struct config_node *key = config_node_get(n, "extends", strlen("extends"));
    struct chain below = {config_node_get(all, name, strlen(name)), chain, chain->depth + 1};
    struct buf way;

    if (config_find_profile(c, name) != NULL)
        return true;
    if (below.node == NULL && strcmp(name, "default") == 0) {
        (void) config_add_profile(c, name); /* it always exists */
        return true;
    }
    if (below.node == NULL) {
        config_problem(p, key->line, key->column, "profiles.%s.extends: there is no profile '%s'",
                       n->key, name);
        return false;
    }
    if (is_in_chain(chain, below.node)) {
        buf_init(&way, CONFIG_PROFILES_MAX * (CONFIG_NAME_MAX + 8));
        print_chain(chain, &way);
        config_problem(p, key->line, key->column,
                       "profiles.%s.extends leads back to itself: %.400s%s", n->key, buf_str(&way),
                       name);
        buf_fini(&way);
        return false;
    }
    if (below.depth == CONFIG_PROFILES_MAX) {
        config_problem(p, key->line, key->column, "profiles.%s.extends: more than %d profiles",
                       n->key, CONFIG_PROFILES_MAX);
        return false;
    }
    apply_profile(c, all, &below, p);
    return config_find_profile(c, name) != NULL;
}

/* Those that it extends come before; each is applied once. */
static void apply_profile(struct config *c, const struct config_node *all, struct chain *chain,
                          struct config_problems *p)
{
    struct scope s = {.problems = p, .is_profile = true};
    const struct config_node *n = chain->node;
    char base[CONFIG_NAME_MAX + 1];
    char name[CONFIG_NAME_MAX + 16];
    struct config_profile *to;

    if (!is_profile_name(n->key)) {
        config_problem(p, n->key_line, n->key_column,
                       "'%.64s' cannot be a profile's name: it is up to %d of a-z 0-9 . _ -, "
                       "a letter or digit first",
                       n->key, CONFIG_NAME_MAX);
        return;
    }
    if (config_find_profile(c, n->key) != NULL)
        return;
    (void) snprintf(name, sizeof(name), "profiles.%s", n->key);
    if (!expect_mapping(p, n, name))
        base[0] = '\0';
    else if (!find_base(n, p, base) || (!str_is_empty(base) && !apply_base(c, all, chain, base, p)))
        return;
    if (c->profile_count == CONFIG_PROFILES_MAX) {
        config_problem(p, n->key_line, n->key_column, "more than %d profiles", CONFIG_PROFILES_MAX);
        return;
    }
    to = config_add_profile(c, n->key);
    if (!str_is_empty(base))
        config_inherit(to, config_find_profile(c, base));
    s.object = to;
    (void) snprintf(s.shown, sizeof(s.shown), "%s.", name);
    if (n->kind == CONFIG_NODE_MAPPING)
        apply_members(&s, n);
}

void config_apply(struct config *c, const struct config_node *root, struct config_problems *p)
{
    struct scope s = {.problems = p, .object = c};
    const struct config_node *profiles;

    if (!expect_mapping(p, root, "the file"))
        return;
    apply_members(&s, root);
    profiles = config_node_get(root, "profiles", strlen("profiles"));
    if (profiles == NULL || !expect_mapping(p, profiles, "profiles"))
        return;
    for (const struct config_node *n = profiles->first; n != NULL; n = n->next) {
        struct chain first = {n, NULL, 0};

        apply_profile(c, profiles, &first, p);
    }
}
