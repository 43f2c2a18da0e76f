/* validate.c - what one key alone cannot tell: relations between keys, and texts that have a form.
 * Runs on a configuration whose keys are each in range. Problems point at the key in the file, or
 * at the nearest thing above it that is there. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/str.h"
#include "config/schema.h"

static const char *const built_in[] = {"oci", "docker", "remote", "sim", NULL};
static const char *const *backend_names = built_in; /* set once, before the first load */

#define LIMIT_LEAST (16ULL * 1024 * 1024) /* less, and not even the agent starts */
#define IDS_PER_BOX 65536ULL
#define IDS_END ((1ULL << 32) - 65536)

struct check {
    const struct config *c;
    const struct config_node *root; /* may be NULL: nothing was in the file */
    struct config_problems *problems;
};

void config_set_backend_names(const char *const *names)
{
    backend_names = names;
}

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

/* A profile's name may have dots in it, so it is a step of its own. */
static void complain(const struct check *k, const struct config_profile *p, const char *path,
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

static void complain_more(const struct check *k, const struct config_profile *p, const char *path,
                          uint64_t value, const char *other, uint64_t limit)
{
    char text[CONFIG_WHY_MAX];

    (void) snprintf(text, sizeof(text), "(%llu) is more than %s (%llu)", (unsigned long long) value,
                    other, (unsigned long long) limit);
    complain(k, p, path, text);
}

/* Calls for each word of a comma separated text; stops when the callback refuses. */
static bool each_word(const char *list, bool (*check)(const struct config *c, const char *word),
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

static bool is_uid(const struct config *c UNUSED, const char *word)
{
    uint64_t uid;

    return str_parse_u64(word, 0, UINT32_MAX - 1, &uid);
}

static bool is_token_name(const struct config *c, const char *word)
{
    for (unsigned i = 0; i < c->tcp.tokens.count; i++) {
        if (strcmp(c->tcp.tokens.pairs[i].key, word) == 0)
            return true;
    }
    return false;
}

static bool is_address(const char *s)
{
    const char *colon = strrchr(s, ':');
    char host[CONFIG_NAME_MAX + 1];
    struct in6_addr in;
    uint64_t port;
    size_t len;

    if (colon == NULL || !str_parse_u64(colon + 1, 1, 65535, &port))
        return false;
    len = (size_t) (colon - s);
    if (len >= 2 && s[0] == '[' && s[len - 1] == ']')
        return str_copy_n(host, sizeof(host), s + 1, len - 2) &&
               inet_pton(AF_INET6, host, &in) == 1;
    return str_copy_n(host, sizeof(host), s, len) && inet_pton(AF_INET, host, &in) == 1;
}

static bool is_printable(const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s <= ' ' || *s > '~')
            return false;
    }
    return true;
}

bool config_is_url(const char *url)
{
    const char *host = NULL;
    const char *port;
    char digits[8];
    uint64_t number;
    size_t len;

    if (strncmp(url, "http://", 7) == 0)
        host = url + 7;
    else if (strncmp(url, "https://", 8) == 0)
        host = url + 8;
    if (host == NULL || !is_printable(url) || strpbrk(url, "@?#\"<>\\^`{|}") != NULL)
        return false;
    len = host[0] == '[' ? strspn(host + 1, "0123456789abcdefABCDEF:.") + 2 : strcspn(host, ":/");
    if (len == 0 || len > 253 || (host[0] == '[' && (len > strlen(host) || host[len - 1] != ']')))
        return false;
    port = host + len;
    if (*port != ':')
        return *port == '\0' || *port == '/';
    len = strcspn(port + 1, "/");
    return str_copy_n(digits, sizeof(digits), port + 1, len) &&
           str_parse_u64(digits, 1, 65535, &number);
}

static void check_tokens(const struct check *k)
{
    const struct config_map *tokens = &k->c->tcp.tokens;
    char path[CONFIG_NAME_MAX * 2];

    for (unsigned i = 0; i < tokens->count; i++) {
        const struct config_pair *t = &tokens->pairs[i];

        (void) snprintf(path, sizeof(path), "tcp.tokens.%.64s", t->key);
        if (!str_is_name(t->key, CONFIG_NAME_MAX, "_-"))
            complain(k, NULL, path, "cannot be a caller's name: use letters, digits, _ and -");
        if (!is_printable(t->value))
            complain(k, NULL, path, "may only have printable characters without spaces");
        for (unsigned j = 0; j < i; j++) {
            if (strcmp(tokens->pairs[j].value, t->value) == 0)
                complain(k, NULL, path, "is the same token as another caller's");
        }
    }
}

static void check_access(const struct check *k)
{
    const struct config *c = k->c;
    char bad[40];
    char text[CONFIG_WHY_MAX];

    if (strlen(c->socket.path) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
        complain(k, NULL, "socket.path", "is longer than the 107 bytes a socket may have");
    if (!str_is_empty(c->tcp.listen)) {
        if (!is_address(c->tcp.listen))
            complain(k, NULL, "tcp.listen",
                     "must be an address and a port like 127.0.0.1:8001 or [::1]:8001");
        if (c->tcp.tokens.count == 0)
            complain(k, NULL, "tcp.listen", "needs tcp.tokens: without one nobody could call");
    }
    check_tokens(k);
    if (!str_is_empty(c->tcp.public_url) && !config_is_url(c->tcp.public_url))
        complain(k, NULL, "tcp.public_url", "must be like https://pool.example.com");
    if (!each_word(c->tcp.operators, is_token_name, c, bad, sizeof(bad))) {
        (void) snprintf(text, sizeof(text), "names '%s', which is not among tcp.tokens", bad);
        complain(k, NULL, "tcp.operators", text);
    }
    if (!each_word(c->operator_uids, is_uid, c, bad, sizeof(bad))) {
        (void) snprintf(text, sizeof(text), "must be numeric user ids, not '%s'", bad);
        complain(k, NULL, "operator_uids", text);
    }
    if (!str_is_empty(c->instance) && !str_is_name(c->instance, CONFIG_NAME_MAX, "._-"))
        complain(k, NULL, "instance", "may have letters, digits and . _ -");
    if (!str_is_empty(c->socket.group) && !str_is_name(c->socket.group, CONFIG_NAME_MAX, "._-"))
        complain(k, NULL, "socket.group", "may have letters, digits and . _ -");
}

static void check_provisioner(const struct check *k)
{
    const struct config *c = k->c;
    const char *key = c->provisioner.api_key;

    if (!is_address(c->provisioner.listen))
        complain(k, NULL, "provisioner.listen",
                 "must be an address and a port like 127.0.0.1:8002 or [::1]:8002");
    if (!str_is_empty(key) && (strlen(key) < 16 || !is_printable(key)))
        complain(k, NULL, "provisioner.api_key", "must be 16 or more characters without spaces");
    if (!str_is_empty(key) && !str_is_empty(c->provisioner.api_key_file))
        complain(k, NULL, "provisioner.api_key_file",
                 "and api_key exclude each other: give one of them");
    if (!str_is_empty(c->provisioner.advertise_host) &&
        !str_is_name(c->provisioner.advertise_host, CONFIG_NAME_MAX, "._-:[]"))
        complain(k, NULL, "provisioner.advertise_host",
                 "must be a host or host:port, without http:// and path");
    if (c->provisioner.enabled && config_find_profile(c, c->provisioner.profile) == NULL)
        complain(k, NULL, "provisioner.profile", "is not the name of a profile");
    if (!str_is_empty(c->provisioner.thread_data) &&
        config_thread_data_problem(c->provisioner.thread_data) != NULL)
        complain(k, NULL, "provisioner.thread_data",
                 config_thread_data_problem(c->provisioner.thread_data));
}

bool config_is_env_name(const char *name)
{
    return str_is_name(name, CONFIG_PATH_MAX, "_") && !(name[0] >= '0' && name[0] <= '9');
}

static void check_backend(const struct check *k, const struct config_profile *p)
{
    char text[CONFIG_WHY_MAX];
    size_t len;

    for (unsigned i = 0; backend_names[i] != NULL; i++) {
        if (strcmp(backend_names[i], p->backend) == 0)
            return;
    }
    (void) snprintf(text, sizeof(text), "'%.64s' is unknown; there is:", p->backend);
    for (unsigned i = 0; backend_names[i] != NULL; i++) {
        len = strlen(text);
        (void) snprintf(text + len, sizeof(text) - len, " %s", backend_names[i]);
    }
    complain(k, p, "backend", text);
}

/* "/here:/there", with ":ro" or ":rw" behind it. */
static const char *mount_problem(const struct config *c, char *word)
{
    char *there = strchr(word, ':');
    char *how;

    if (there == NULL)
        return "must be like /here:/there or /here:/there:ro";
    *there++ = '\0';
    how = strchr(there, ':');
    if (how != NULL)
        *how++ = '\0';
    if (how != NULL && strcmp(how, "ro") != 0 && strcmp(how, "rw") != 0)
        return "can only end in :ro or :rw";
    if (!config_path_is_plain(word) || !config_path_is_plain(there))
        return "needs absolute paths without '..', '.' and double or trailing slashes";
    if (!config_box_path_is_free(there))
        return "cannot cover /, /proc, /sys, /dev or /.sandpool of a box";
    if (!config_mount_is_allowed(c, word))
        return "is not below any of mounts.allow";
    return NULL;
}

static void check_mounts(const struct check *k, const struct config_profile *p)
{
    const char *list = p->mounts;

    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        char word[CONFIG_TEXT_MAX + 1];
        char text[CONFIG_WHY_MAX];
        const char *why;

        (void) snprintf(word, sizeof(word), "%.*s", (int) len, list);
        why = mount_problem(k->c, word);
        if (why != NULL) {
            (void) snprintf(text, sizeof(text), "entry '%.*s' %s", (int) MIN_OF(len, 64U), list,
                            why);
            complain(k, p, "mounts", text);
        }
        list += list[len] == ',' ? len + 1 : len;
    }
}

static bool is_good_root(const struct config *c UNUSED, const char *word)
{
    return config_path_is_plain(word) && strcmp(word, "/") != 0;
}

static bool is_user_name(const char *s)
{
    return str_is_name(s, 32, "_.-") && s[0] != '-' && s[0] != '.' && !(s[0] >= '0' && s[0] <= '9');
}

static bool is_runtime(const char *s)
{
    return str_is_empty(s) || s[0] == '/' || strcmp(s, "crun") == 0 || strcmp(s, "runc") == 0 ||
           strcmp(s, "runsc") == 0;
}

/* "debian:12" names an image of an engine; skopeo wants to know where an image is. */
static bool has_transport(const char *image)
{
    static const char *const known[] = {"oci:",      "oci-archive:",   "docker-archive:",
                                        "docker://", "docker-daemon:", "containers-storage:",
                                        "dir:"};

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strncmp(image, known[i], strlen(known[i])) == 0)
            return true;
    }
    return false;
}

/* What real boxes are made from. */
static void check_box(const struct check *k, const struct config_profile *p)
{
    bool is_host = strcmp(p->rootfs, "host") == 0;

    if (!is_host && !is_good_root(k->c, p->rootfs))
        complain(k, p, "rootfs",
                 "must be host, or the absolute path of a directory, not / itself, without '..'");
    if (!is_host && !str_is_empty(p->image))
        complain(k, p, "image", "and rootfs exclude each other: give one of them");
    if (strcmp(p->backend, "oci") == 0 && !is_runtime(p->runtime))
        complain(k, p, "runtime", "must be crun, runc, runsc or the absolute path of a runtime");
    if (strcmp(p->backend, "oci") == 0 && !str_is_empty(p->image) && !has_transport(p->image))
        complain(k, p, "image",
                 "must say where the image is: docker://debian:12, oci:/dir:tag, "
                 "docker-archive:/file.tar");
    if (p->sockets == CONFIG_SOCKETS_UNIX &&
        (strcmp(p->backend, "oci") != 0 || p->network != CONFIG_NETWORK_NONE))
        complain(k, p, "sockets", "unix needs backend oci and `network: none`");
    if (!is_user_name(p->user))
        complain(k, p, "user",
                 "must be a user's name: up to 32 letters, digits and . _ -, a letter or _ first");
    if (p->limits.memory > 0 && p->limits.memory < LIMIT_LEAST)
        complain(k, p, "limits.memory", "must be 0 (no limit) or at least 16M");
    if (p->limits.disk > 0 && p->limits.disk < LIMIT_LEAST)
        complain(k, p, "limits.disk", "must be 0 (no limit) or at least 16M");
    check_mounts(k, p);
}

/* What only containers of an engine have. */
static void check_docker(const struct check *k, const struct config_profile *p)
{
    char text[CONFIG_WHY_MAX];
    const char *key;

    if (strcmp(p->backend, "docker") != 0)
        return;
    if (str_is_empty(p->image))
        complain(k, p, "image", "is needed with backend docker, like debian:12");
    if (p->agent == CONFIG_AGENT_IMAGE && p->network != CONFIG_NETWORK_NAT)
        complain(k, p, "agent",
                 "image needs `network: nat`: without a network its port cannot be reached");
    if (!str_is_name(p->docker.container_prefix, CONFIG_NAME_MAX, "_.-") ||
        strchr("_.-", p->docker.container_prefix[0]) != NULL)
        complain(k, p, "docker.container_prefix", "may have letters, digits and . _ -");
    if (!str_is_empty(p->docker.adopt_prefix) &&
        !str_is_name(p->docker.adopt_prefix, CONFIG_NAME_MAX, "_.-"))
        complain(k, p, "docker.adopt_prefix", "may have letters, digits and . _ -");
    if (!str_is_empty(p->docker.adopt_prefix) && !p->discover)
        complain(k, p, "docker.adopt_prefix",
                 "needs `discover: true`: acquires must look for them");
    if (p->docker.stop_grace_s > 0 && p->docker.stop_grace_s >= p->destroy_timeout_s)
        complain_more(k, p, "docker.stop_grace_s", p->docker.stop_grace_s,
                      "what destroy_timeout_s leaves", p->destroy_timeout_s - 1);
    key = config_docker_problem(p, text);
    if (key != NULL)
        complain(k, p, key, text);
}

/* What only boxes of a provisioner have. */
static void check_remote(const struct check *k, const struct config_profile *p)
{
    size_t mounts = str_is_empty(p->mounts) ? 0 : 1;

    if (strcmp(p->backend, "remote") != 0)
        return;
    if (str_is_empty(p->remote.provisioner_url))
        complain(k, p, "remote.provisioner_url",
                 "is needed with backend remote, like http://provisioner:8002");
    else if (!config_is_url(p->remote.provisioner_url))
        complain(k, p, "remote.provisioner_url",
                 "must be like http://provisioner:8002, without user, query or fragment");
    if (!is_printable(p->remote.provisioner_api_key))
        complain(k, p, "remote.provisioner_api_key",
                 "may only have printable characters without spaces");
    if (!str_is_empty(p->remote.provisioner_api_key) &&
        !str_is_empty(p->remote.provisioner_api_key_file))
        complain(k, p, "remote.provisioner_api_key_file",
                 "and provisioner_api_key exclude each other: give one of them");
    for (const char *s = p->mounts; *s != '\0'; s++)
        mounts += *s == ',' ? 1 : 0;
    if (mounts > 10)
        complain(k, p, "mounts", "may have at most 10 entries with backend remote");
    if (p->env.count > 0)
        complain(k, p, "env", "has no effect with backend remote: the provisioner makes the box");
}

/* Ids near the end of 32 bits have meanings of their own. */
static void check_ids(const struct check *k)
{
    const struct config *c = k->c;
    char text[CONFIG_WHY_MAX];
    bool is_used = false;

    for (unsigned i = 0; i < c->profile_count; i++)
        is_used = is_used || strcmp(c->profiles[i].backend, "oci") == 0;
    if (!is_used || c->oci.id_base + IDS_PER_BOX * c->pool.max_boxes <= IDS_END)
        return;
    (void) snprintf(text, sizeof(text),
                    "(%llu) leaves no room for %u ids for each of pool.max_boxes (%llu)",
                    (unsigned long long) c->oci.id_base, (unsigned) IDS_PER_BOX,
                    (unsigned long long) c->pool.max_boxes);
    complain(k, NULL, "oci.id_base", text);
}

static void check_profile(const struct check *k, const struct config_profile *p)
{
    char path[CONFIG_PATH_MAX + 8];

    check_backend(k, p);
    check_box(k, p);
    check_docker(k, p);
    check_remote(k, p);
    if (p->warm.min > p->warm.max)
        complain_more(k, p, "warm.min", p->warm.min, "warm.max", p->warm.max);
    if (p->create.backoff_min_ms > p->create.backoff_max_ms)
        complain_more(k, p, "create.backoff_min_ms", p->create.backoff_min_ms,
                      "create.backoff_max_ms", p->create.backoff_max_ms);
    if (strlen(p->sim.socket) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
        complain(k, p, "sim.socket", "is longer than the 107 bytes a socket may have");
    for (unsigned i = 0; i < p->env.count; i++) {
        if (config_is_env_name(p->env.pairs[i].key))
            continue;
        (void) snprintf(path, sizeof(path), "env.%.64s", p->env.pairs[i].key);
        complain(k, p, path, "cannot be the name of a variable");
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
    if (!each_word(c->mounts.allow, is_good_root, c, bad, sizeof(bad))) {
        char text[CONFIG_WHY_MAX];

        (void) snprintf(text, sizeof(text),
                        "must be absolute paths other than / without '..', not '%s'", bad);
        complain(&k, NULL, "mounts.allow", text);
    }
    check_ids(&k);
    if (c->pool.default_wait_ms > c->pool.max_wait_ms)
        complain_more(&k, NULL, "pool.default_wait_ms", c->pool.default_wait_ms, "pool.max_wait_ms",
                      c->pool.max_wait_ms);
    for (unsigned i = 0; i < c->profile_count; i++) {
        check_profile(&k, &c->profiles[i]);
        warm += c->profiles[i].personal ? 0 : c->profiles[i].warm.min;
    }
    if (warm > c->pool.max_boxes) {
        char text[CONFIG_WHY_MAX];

        (void) snprintf(text, sizeof(text),
                        "(%llu) is less than the warm.min of all profiles (%llu)",
                        (unsigned long long) c->pool.max_boxes, (unsigned long long) warm);
        complain(&k, NULL, "pool.max_boxes", text);
    }
}
