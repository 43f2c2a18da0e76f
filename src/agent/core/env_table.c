/* env_table.c - names and values, with limits. Changes are made on a copy, which replaces the table
 * if all of them fit. */
#include "agent/core/env_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static size_t name_len(const char *pair)
{
    return strcspn(pair, "=");
}

static struct env_var *find(const struct env_table *t, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < t->count; i++)
        if (name_len(t->vars[i].pair) == len && strncmp(t->vars[i].pair, name, len) == 0)
            return &t->vars[i];
    return NULL;
}

void env_table_init(struct env_table *t, char *const *environ)
{
    size_t count = 0;

    while (environ[count] != NULL)
        count++;
    t->vars = xcalloc(count + 1, sizeof(*t->vars));
    t->count = 0;
    for (size_t i = 0; i < count; i++)
        if (environ[i][0] != '=' && strchr(environ[i], '=') != NULL)
            t->vars[t->count++].pair = xstrdup(environ[i]);
}

void env_table_fini(struct env_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->vars[i].pair);
    free(t->vars);
    memset(t, 0, sizeof(*t));
}

bool env_table_is_set(const struct env_table *t, const char *name)
{
    const struct env_var *v = find(t, name);

    return v != NULL && v->is_set;
}

const char *env_table_get(const struct env_table *t, const char *name)
{
    const struct env_var *v = find(t, name);

    return v != NULL ? v->pair + name_len(v->pair) + 1 : NULL;
}

static size_t bytes_of(const struct env_table *t)
{
    size_t bytes = 0;

    for (size_t i = 0; i < t->count; i++)
        bytes += strlen(t->vars[i].pair) + 1;
    return bytes;
}

/* A name that a shell can use. */
static bool is_name(const char *name)
{
    return (name[0] < '0' || name[0] > '9') && str_is_name(name, 256, "_");
}

static void put(struct env_table *t, const char *name, const char *value)
{
    size_t len = strlen(name) + strlen(value) + 2;
    struct env_var *v = find(t, name);

    if (v == NULL) {
        v = &t->vars[t->count];
        t->count++;
    }
    free(v->pair);
    v->pair = xcalloc(1, len);
    v->is_set = true;
    (void) snprintf(v->pair, len, "%s=%s", name, value);
}

static int apply_set(struct env_table *t, const struct json *set, struct err *err)
{
    const char *name;
    const struct json *value;

    for (size_t i = 0; json_member(set, i, &name, &value); i++) {
        if (!is_name(name))
            return err_set(err, SP_INVALID_FIELD, "'set': '%.64s' is not a valid variable name",
                           name);
        if (json_str(value) == NULL)
            return err_set(err, SP_INVALID_FIELD, "'set' must map names to strings");
        put(t, name, json_str(value));
    }
    return SP_OK;
}

static int apply_unset(struct env_table *t, const struct json *unset, struct err *err)
{
    for (size_t i = 0; i < json_len(unset); i++) {
        const char *name = json_str(json_at(unset, i));
        struct env_var *v;

        if (name == NULL || !is_name(name))
            return err_set(err, SP_INVALID_FIELD, "'unset' must be a list of names");
        v = find(t, name);
        if (v == NULL)
            continue;
        free(v->pair);
        t->count--;
        *v = t->vars[t->count];
        t->vars[t->count] = (struct env_var){0};
    }
    return SP_OK;
}

/* The agent may have been started with more; such a table may only not grow. */
static int check_size(const struct env_table *before, const struct env_table *after,
                      struct err *err)
{
    if (after->count > ENV_NAMES_MAX && after->count > before->count)
        return err_set(err, SP_INVALID_FIELD, "more than %d variables", (int) ENV_NAMES_MAX);
    if (bytes_of(after) > ENV_BYTES_MAX && bytes_of(after) > bytes_of(before))
        return err_set(err, SP_INVALID_FIELD, "more than %d bytes of environment",
                       (int) ENV_BYTES_MAX);
    return SP_OK;
}

int env_table_change(struct env_table *t, const struct json *set, const struct json *unset,
                     struct err *err)
{
    size_t more = set != NULL ? json_len(set) : 0;
    struct env_table next = {0};
    int rc = SP_OK;

    if (more > ENV_NAMES_MAX)
        return err_set(err, SP_INVALID_FIELD, "more than %d variables", (int) ENV_NAMES_MAX);
    next.vars = xcalloc(t->count + more + 1, sizeof(*next.vars));
    for (; next.count < t->count; next.count++) {
        next.vars[next.count].pair = xstrdup(t->vars[next.count].pair);
        next.vars[next.count].is_set = t->vars[next.count].is_set;
    }
    if (unset != NULL)
        rc = apply_unset(&next, unset, err);
    if (rc == SP_OK && set != NULL)
        rc = apply_set(&next, set, err);
    if (rc == SP_OK)
        rc = check_size(t, &next, err);
    if (rc != SP_OK) {
        env_table_fini(&next);
        return rc;
    }
    env_table_fini(t);
    *t = next;
    return SP_OK;
}
