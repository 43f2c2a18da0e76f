/* schema.h - the table of all keys, and what the files of config/ share. Not for other modules, except the
 * manual page that is made of the table (src/dist/man). */
#ifndef CONFIG_SCHEMA_H
#define CONFIG_SCHEMA_H

#include "config/config.h"

/* --- the table --- */

enum config_type {
    CONFIG_TYPE_STRING, /* char[]; max is the longest length */
    CONFIG_TYPE_PATH,   /* char[], not empty unless min is 0 */
    CONFIG_TYPE_LIST,   /* char[], comma separated; a sequence in the file */
    CONFIG_TYPE_U64,
    CONFIG_TYPE_SIZE,  /* uint64_t, bytes; "16k" in the file */
    CONFIG_TYPE_MODE,  /* uint64_t, octal */
    CONFIG_TYPE_MILLI, /* uint64_t, thousandths; "1.5" in the file */
    CONFIG_TYPE_MICRO, /* uint64_t, millionths; "0.0125" in the file */
    CONFIG_TYPE_BOOL,
    CONFIG_TYPE_ENUM, /* an enum as wide as unsigned; `names` has a name per value, then NULL */
    CONFIG_TYPE_MAP,  /* struct config_map; max is the longest value */
    CONFIG_TYPE_COUNT
};

enum {
    CONFIG_RELOADABLE = 1, /* may change while the daemon runs */
    CONFIG_SECRET = 2,     /* values are never printed */
    CONFIG_SPEC = 4,       /* a box is made from it: counts for config_spec_hash() */
    CONFIG_ADDRESS = 8,    /* distinguishes one backend object from another: config_backend_key() */
    CONFIG_LINES = 32,     /* a text of several lines is allowed */
    CONFIG_OF_BACKEND =
        16, /* its section is named after the backend it is for, ignored by others */
};

struct config_key {
    const char *path; /* "http.max_body_bytes"; "profiles.*.warm.min" is a field of a profile */
    enum config_type type;
    unsigned flags;
    size_t offset; /* in struct config or struct config_profile */
    uint64_t min;
    uint64_t max;
    const char *def; /* as it would be written in the file */
    const char *const *names;
    const char *help; /* sentences */
};

struct config_section {
    const char *path;
    const char *help;
};

#define CONFIG_PROFILE_PREFIX "profiles.*."

/* The keys of a section, or of a few. */
struct config_table {
    const struct config_key *keys;
    size_t count;
};

extern const struct config_table config_table_daemon;
extern const struct config_table config_table_http;
extern const struct config_table config_table_pool;
extern const struct config_table config_table_oci;
extern const struct config_table config_table_provisioner;
extern const struct config_table config_table_profile;
extern const struct config_table config_table_price;
extern const struct config_table config_table_docker;
extern const struct config_table config_table_remote;
extern const struct config_table config_table_sim;

/* The key after this one, the first after NULL; NULL at the end. Profiles' keys come last. */
const struct config_key *config_key_next(const struct config_key *k);
extern const struct config_section config_sections[]; /* ends with a path of NULL */

bool config_key_is_profile(const struct config_key *k);
/* The path below its profile, or below the root. */
const char *config_key_name(const struct config_key *k);
/* NULL when there is none. `name` as config_key_name() gives it. */
const struct config_key *config_key_find(bool is_profile, const char *name);
bool config_section_exists(bool is_profile, const char *name);
/* Fills a zeroed object with the defaults. */
void config_set_defaults(bool is_profile, void *object);

/* --- one value (value.c) --- */

enum { CONFIG_WHY_MAX = 160 };

/* Sets from text; false with the reason, which never repeats a secret. Not for maps. */
MUST_CHECK bool config_value_set(const struct config_key *k, void *object, const char *text,
                                 char why[CONFIG_WHY_MAX]);
/* A name that is there gets the new text. */
MUST_CHECK bool config_map_add(const struct config_key *k, void *object, const char *name,
                               const char *text, char why[CONFIG_WHY_MAX]);
/* `to` gets a copy of the map; what it had is forgotten, not freed. */
void config_map_copy(const struct config_key *k, void *to, const void *from);
bool config_value_equal(const struct config_key *k, const void *a, const void *b);
/* As it would be written in the file; not for maps. */
void config_value_print(const struct config_key *k, const void *object, struct buf *out);
void config_value_fini(const struct config_key *k, void *object);
const struct config_map *config_value_map(const struct config_key *k, const void *object);
/* "default 5; 1 to 10; reload: yes", of a key of an object with the defaults. */
void config_print_facts(const struct config_key *k, const void *object, struct buf *out);
/* Quotes when YAML or ${} would read the text differently. */
void config_print_text(const char *text, struct buf *out);

/* --- problems (problem.c) --- */

struct config_problems {
    const char *file;
    struct err *err; /* may be NULL */
    unsigned count;
    unsigned left_out;
};

void config_problem(struct config_problems *p, unsigned line, unsigned column, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* SP_OK when there was none, else SP_CONFIG with err complete. */
MUST_CHECK int config_problems_end(struct config_problems *p);

/* --- the file as a tree (yaml.c) --- */

enum config_node_kind {
    CONFIG_NODE_SCALAR,
    CONFIG_NODE_MAPPING,
    CONFIG_NODE_SEQUENCE,
    CONFIG_NODE_KIND_COUNT
};

struct config_node {
    enum config_node_kind kind;
    char *key;    /* in a mapping; else NULL */
    char *text;   /* of a scalar */
    bool is_null; /* nothing, "~" or "null", unquoted */
    unsigned key_line, key_column, line, column;
    unsigned count;
    struct config_node *parent, *first, *last, *next;
};

/* NULL when there were problems or the text holds no document (then p->count is 0). */
struct config_node *config_yaml_parse(const char *text, size_t len, struct config_problems *p);
struct config_node *config_node_free(struct config_node *n); /* NULL is fine; returns NULL */
const struct config_node *config_node_get(const struct config_node *n, const char *key, size_t len);

/* --- the steps of loading --- */

/* apply.c: tree to configuration. */
void config_apply(struct config *c, const struct config_node *root, struct config_problems *p);
/* validate*.c: checks that need more than one key. */
void config_validate(const struct config *c, const struct config_node *root,
                     struct config_problems *p);
/* docker_options.c: the first problem below docker.*, or with what depends on it: the key and the
 * rest of a sentence. NULL: there is none. */
const char *config_docker_problem(const struct config_profile *p, char why[CONFIG_WHY_MAX]);
/* expand.c: ${NAME} and $$; false with the reason. */
MUST_CHECK bool config_expand(const char *text, struct buf *out, char why[CONFIG_WHY_MAX]);
/* The new name of a key of an earlier version; NULL: there was none. `path` is that of a key outside
 * profiles. */
const char *config_renamed(const char *path);
/* suggest.c: the key or section that was probably meant; false if none is similar. `prefix` is the
 * position in the file: "", "http", "warm". */
bool config_suggest(bool is_profile, const char *prefix, const char *word, struct buf *out);
/* config.c */
struct config *config_new(void);
struct config_profile *config_add_profile(struct config *c, const char *name);
/* All values of another profile, which `to`, just added, has the name and nothing else of its own. */
void config_inherit(struct config_profile *to, const struct config_profile *from);

#endif
