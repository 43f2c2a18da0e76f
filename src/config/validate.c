/* validate.c - checks that need more than one key: relations between keys, and formats of texts.
 * Runs on a configuration whose keys are each in range; validate_*.c have one section each. */
#include "config/validate.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const struct config_node *descend(const struct config_node *n, const char *path)
{
    while (n != NULL && *path != '\0') {
        size_t len = strcspn(path, ".");
        const struct config_node *child = config_node_get(n, path, len);

        if (child == NULL)
            return n;
        n = child;
        path += path[len] == '.' ? len + 1 : len;
    }
    return n;
}

/* A profile's name may contain dots, so it is a separate step. */
void check_complain(const struct check *k, const struct config_profile *p, const char *path,
                    const char *text)
{
    const struct config_node *n = k->root;
    unsigned line = 1;
    unsigned column = 1;
    char prefix[CONFIG_NAME_MAX + 16] = "";

    if (p != NULL) {
        (void) snprintf(prefix, sizeof(prefix), "profiles.%s.", p->name);
        n = descend(n, "profiles");
        if (n != NULL && n != k->root && config_node_get(n, p->name, strlen(p->name)) != NULL)
            n = descend(config_node_get(n, p->name, strlen(p->name)), path);
    } else {
        n = descend(n, path);
    }
    if (n != NULL) {
        bool is_value = n->kind == CONFIG_NODE_SCALAR && !n->is_null;

        line = is_value ? n->line : n->key_line;
        column = is_value ? n->column : n->key_column;
    }
    config_problem(k->problems, line, column, "%s%s %s", prefix, path, text);
}

void check_complain_more(const struct check *k, const struct config_profile *p, const char *path,
                         uint64_t value, const char *other, uint64_t limit)
{
    char text[CONFIG_WHY_MAX];

    (void) snprintf(text, sizeof(text), "(%llu) is more than %s (%llu)", (unsigned long long) value,
                    other, (unsigned long long) limit);
    check_complain(k, p, path, text);
}

bool check_each_word(const char *list, bool (*check)(const struct config *c, const char *word),
                     const struct config *c, char *ret_bad, size_t cap)
{
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        char word[CONFIG_TEXT_MAX + 1];
        bool is_whole = str_copy_n(word, sizeof(word), list, len);

        assert(is_whole); /* the list itself is no longer */
        if (!check(c, word)) {
            str_copy_cut(ret_bad, cap, word);
            return false;
        }
        list += list[len] == ',' ? len + 1 : len;
    }
    return true;
}

/* Whoever is named like a directory of others would have their data in its own. */
static void check_closed(const struct check *k)
{
    char text[CONFIG_WHY_MAX];
    struct config_dirs dirs;

    config_closed_dirs(k->c, &dirs);
    if (dirs.count > CONFIG_CLOSED_MAX) {
        (void) snprintf(text, sizeof(text),
                        "has more than %d different directories with data of threads",
                        CONFIG_CLOSED_MAX);
        check_complain(k, NULL, "profiles", text);
        return;
    }
    for (unsigned i = 0; i < dirs.count; i++) {
        for (unsigned j = 0; j < dirs.count; j++) {
            if (i == j || !config_path_is_within(dirs.dirs[i], dirs.dirs[j]))
                continue;
            (void) snprintf(text, sizeof(text),
                            "has data of threads in '%.50s' and in '%.50s', which is in it",
                            dirs.dirs[j], dirs.dirs[i]);
            check_complain(k, NULL, "profiles", text);
            return;
        }
    }
}

void config_validate(const struct config *c, const struct config_node *root,
                     struct config_problems *p)
{
    struct check k = {.c = c, .root = root, .problems = p};
    uint64_t warm = 0;
    char bad[64];

    check_access(&k);
    check_provisioner(&k);
    check_auto(&k);
    check_budgets(&k);
    if (!check_each_word(c->mounts.allow, form_is_root, c, bad, sizeof(bad))) {
        char text[CONFIG_WHY_MAX];

        (void) snprintf(text, sizeof(text),
                        "must be absolute paths other than / without '..', not '%s'", bad);
        check_complain(&k, NULL, "mounts.allow", text);
    }
    check_oci_ids(&k);
    if (c->pool.default_wait_ms > c->pool.max_wait_ms)
        check_complain_more(&k, NULL, "pool.default_wait_ms", c->pool.default_wait_ms,
                            "pool.max_wait_ms", c->pool.max_wait_ms);
    for (unsigned i = 0; i < c->profile_count; i++) {
        check_profile(&k, &c->profiles[i]);
        warm += c->profiles[i].personal ? 0 : c->profiles[i].warm.min;
    }
    if (p->count == 0)
        check_closed(&k);
    if (warm > c->pool.max_boxes) {
        char text[CONFIG_WHY_MAX];

        (void) snprintf(text, sizeof(text),
                        "(%llu) is less than the warm.min of all profiles (%llu)",
                        (unsigned long long) c->pool.max_boxes, (unsigned long long) warm);
        check_complain(&k, NULL, "pool.max_boxes", text);
    }
}
