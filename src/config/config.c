/* config.c - loads, frees, compares. A configuration is built completely and never changed
 * afterwards: a reload makes a new one and the daemon swaps the pointer. */
#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/schema.h"

struct config *config_new(void)
{
    struct config *c = xcalloc(1, sizeof(*c));

    config_set_defaults(false, c);
    return c;
}

static void fini_values(bool is_profile, void *object)
{
    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        if (config_key_is_profile(k) == is_profile)
            config_value_fini(k, object);
    }
}

struct config *config_free(struct config *c)
{
    if (c == NULL)
        return NULL;
    for (unsigned i = 0; i < c->profile_count; i++)
        fini_values(true, &c->profiles[i]);
    free(c->profiles);
    fini_values(false, c);
    free(c);
    return NULL;
}

/* The returned pointer is good until the next profile is added. */
struct config_profile *config_add_profile(struct config *c, const char *name)
{
    unsigned at = 0;
    struct config_profile *p;
    bool is_whole;

    while (at < c->profile_count && strcmp(c->profiles[at].name, name) < 0)
        at++;
    c->profiles = xrealloc(c->profiles, (c->profile_count + 1) * sizeof(*p));
    p = &c->profiles[at];
    memmove(p + 1, p, (c->profile_count - at) * sizeof(*p));
    c->profile_count++;
    memset(p, 0, sizeof(*p));
    is_whole = str_copy(p->name, sizeof(p->name), name);
    assert(is_whole);
    config_set_defaults(true, p);
    return p;
}

void config_inherit(struct config_profile *to, const struct config_profile *from)
{
    char name[sizeof(to->name)];

    str_copy_cut(name, sizeof(name), to->name);
    fini_values(true, to);
    *to = *from;
    str_copy_cut(to->name, sizeof(to->name), name);
    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        if (config_key_is_profile(k) && k->type == CONFIG_TYPE_MAP)
            config_map_copy(k, to, from);
    }
}

const struct config_profile *config_find_profile(const struct config *c, const char *name)
{
    for (unsigned i = 0; i < c->profile_count; i++) {
        if (strcmp(c->profiles[i].name, name) == 0)
            return &c->profiles[i];
    }
    return NULL;
}

int config_parse(const char *name, const char *text, size_t len, struct config **ret,
                 struct err *err)
{
    struct config_problems problems = {.file = name, .err = err};
    struct config *c = config_new();
    struct config_node *root = NULL;
    int r;

    if (len > CONFIG_FILE_MAX)
        config_problem(&problems, 1, 1, "the file is larger than %d bytes", CONFIG_FILE_MAX);
    else
        root = config_yaml_parse(text, len, &problems);
    if (root != NULL)
        config_apply(c, root, &problems);
    if (config_find_profile(c, "default") == NULL)
        (void) config_add_profile(c, "default");
    if (problems.count == 0)
        config_validate(c, root, &problems);
    (void) config_node_free(root);
    r = config_problems_end(&problems);
    if (r == SP_OK)
        *ret = TAKE_PTR(c);
    (void) config_free(c);
    return r;
}

static int read_file(const char *path, struct buf *out, struct err *err)
{
    AUTO_CLOSE int fd = -1;
    int sys = file_open_regular(path, &fd); /* a reload happens on the loop: no pipe */

    if (sys == FILE_NOT_REGULAR)
        return err_set(err, SP_CONFIG, "'%s' is not a file", path);
    if (sys != 0)
        return err_sys(err, SP_CONFIG, sys, "cannot open '%s'", path);
    sys = file_read_rest(fd, out);
    if (sys == EFBIG)
        return err_set(err, SP_CONFIG, "%s:1:1: the file is larger than %d bytes", path,
                       CONFIG_FILE_MAX);
    return sys == 0 ? SP_OK : err_sys(err, SP_CONFIG, sys, "cannot read '%s'", path);
}

int config_load(const char *path, struct config **ret, struct err *err)
{
    struct buf text;
    int r;

    if (path == NULL)
        return config_parse("(defaults)", "", 0, ret, err);
    buf_init(&text, CONFIG_FILE_MAX);
    r = read_file(path, &text, err);
    if (r == SP_OK)
        r = config_parse(path, buf_str(&text), text.len, ret, err);
    buf_fini(&text);
    return r;
}

int config_can_reload(const struct config *from, const struct config *to, struct err *err)
{
    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        if (config_key_is_profile(k) || (k->flags & CONFIG_RELOADABLE) != 0)
            continue;
        if (!config_value_equal(k, from, to))
            return err_set(err, SP_CONFIG,
                           "%s cannot change while the daemon runs: restart it; SIGUSR2 does so "
                           "unnoticed",
                           k->path);
    }
    return SP_OK;
}

/* False for the sections of other backends than the profile's own. */
static bool applies(const struct config_key *k, const struct config_profile *p)
{
    const char *name = config_key_name(k);
    size_t len = strcspn(name, ".");

    return (k->flags & CONFIG_OF_BACKEND) == 0 ||
           (strlen(p->backend) == len && strncmp(name, p->backend, len) == 0);
}

/* With its length before it, so that no two lists of texts look alike. */
static void hash_text(struct sha256 *h, const char *s)
{
    char len[24];

    (void) snprintf(len, sizeof(len), "%zu:", strlen(s));
    sha256_add(h, len, strlen(len));
    sha256_add(h, s, strlen(s));
}

static int compare_pairs(const void *a, const void *b)
{
    const struct config_pair *x = a;
    const struct config_pair *y = b;

    return strcmp(x->key, y->key);
}

/* The order in the file does not matter. */
static void hash_map(struct sha256 *h, const struct config_map *map)
{
    struct config_pair pairs[CONFIG_MAP_MAX];

    for (unsigned i = 0; i < map->count; i++)
        pairs[i] = map->pairs[i];
    qsort(pairs, map->count, sizeof(pairs[0]), compare_pairs);
    for (unsigned i = 0; i < map->count; i++) {
        hash_text(h, pairs[i].key);
        hash_text(h, pairs[i].value);
    }
}

void config_set_defaults(bool is_profile, void *object)
{
    char why[CONFIG_WHY_MAX];

    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        if (config_key_is_profile(k) != is_profile || k->type == CONFIG_TYPE_MAP)
            continue;
        bool is_set = config_value_set(k, object, k->def, why);
        assert(is_set);
    }
}

/* Keys that had another name before changed no hash with it. */
static const char *name_in_hash(const struct config_key *k)
{
    const char *name = config_key_name(k);

    return strcmp(name, "network.mode") == 0 ? "network" : name;
}

/* Values that are the default are left out: a key that a later version adds changes no hash. */
uint64_t config_spec_hash(const struct config_profile *p)
{
    struct config_profile *plain = xcalloc(1, sizeof(*plain));
    unsigned char digest[32];
    struct sha256 h;
    uint64_t v = 0;

    config_set_defaults(true, plain);
    sha256_init(&h);
    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        if (!config_key_is_profile(k) || (k->flags & CONFIG_SPEC) == 0 || !applies(k, p) ||
            config_value_equal(k, p, plain))
            continue;
        hash_text(&h, name_in_hash(k));
        if (k->type == CONFIG_TYPE_MAP) {
            hash_map(&h, config_value_map(k, p));
        } else {
            struct buf text;

            buf_init(&text, 8 * CONFIG_TEXT_MAX); /* of escaped text, too */
            config_value_print(k, p, &text);
            hash_text(&h, buf_str(&text));
            buf_fini(&text);
        }
    }
    sha256_end(&h, digest);
    free(plain);
    for (unsigned i = 0; i < 8; i++)
        v = v << 8 | digest[i];
    return v;
}

/* A provisioner's Pods are made by the cluster: for us a create is only a short call. */
uint64_t config_create_concurrency(const struct config_profile *p)
{
    enum { USUAL = 4, REMOTE = 16 };

    if (p->create.concurrency > 0)
        return p->create.concurrency;
    return strcmp(p->backend, CONFIG_BACKEND_REMOTE) == 0 ? REMOTE : USUAL;
}

void config_backend_key(const struct config_profile *p, char *dst, size_t cap)
{
    struct buf key;

    buf_init(&key, 4 * CONFIG_TEXT_MAX);
    buf_puts(&key, p->backend);
    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        if ((k->flags & CONFIG_ADDRESS) == 0 || (k->flags & CONFIG_OF_BACKEND) == 0 ||
            !applies(k, p))
            continue;
        assert(k->type == CONFIG_TYPE_STRING || k->type == CONFIG_TYPE_PATH);
        buf_printf(&key, ":%s", (const char *) p + k->offset);
    }
    bool is_whole = str_copy(dst, cap, buf_str(&key));
    assert(is_whole); /* a truncated key would merge two backends */
    buf_fini(&key);
}

bool config_profile_at(const char *key, struct config_profile *ret)
{
    size_t len = strcspn(key, ":");

    memset(ret, 0, sizeof(*ret));
    config_set_defaults(true, ret);
    if (!str_copy_n(ret->backend, sizeof(ret->backend), key, len))
        return false;
    for (const struct config_key *k = config_key_next(NULL); k != NULL && key[len] == ':';
         k = config_key_next(k)) {
        if ((k->flags & CONFIG_ADDRESS) == 0 || (k->flags & CONFIG_OF_BACKEND) == 0 ||
            !applies(k, ret))
            continue;
        return str_copy((char *) ret + k->offset, (size_t) k->max + 1, key + len + 1);
    }
    return true;
}
