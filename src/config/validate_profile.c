/* validate_profile.c - what a box is made from, and how many are kept. */
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/str.h"
#include "config/validate.h"

#define LIMIT_LEAST (16ULL * 1024 * 1024) /* with less, not even the agent starts */

const char *const config_backends[] = {CONFIG_BACKEND_OCI, CONFIG_BACKEND_DOCKER,
                                       CONFIG_BACKEND_REMOTE, CONFIG_BACKEND_SIM, NULL};

static void check_backend(const struct check *k, const struct config_profile *p)
{
    char text[CONFIG_WHY_MAX];
    size_t len;

    for (unsigned i = 0; config_backends[i] != NULL; i++) {
        if (strcmp(config_backends[i], p->backend) == 0)
            return;
    }
    (void) snprintf(text, sizeof(text), "'%.64s' is unknown; there is:", p->backend);
    for (unsigned i = 0; config_backends[i] != NULL; i++) {
        len = strlen(text);
        (void) snprintf(text + len, sizeof(text) - len, " %s", config_backends[i]);
    }
    check_complain(k, p, "backend", text);
}

/* "/here:/there", with ":ro" or ":rw" after it. */
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
    if (strpbrk(word, "{}") != NULL) {
        const char *why = config_template_problem(word);

        if (why != NULL)
            return why;
        *(strstr(word, "/{")) = '\0'; /* what is the same for all has to be allowed */
    }
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
            check_complain(k, p, "mounts", text);
        }
        list += list[len] == ',' ? len + 1 : len;
    }
}

static bool is_user_name(const char *s)
{
    return str_is_name(s, 32, "_.-") && s[0] != '-' && s[0] != '.' && !(s[0] >= '0' && s[0] <= '9');
}

static void check_egress(const struct check *k, const struct config_profile *p)
{
    const char *allow = p->network.allow;
    char why[EGRESS_WHY_MAX];

    if (strcmp(allow, CONFIG_ALLOW_ANY) == 0)
        return;
    if (strcmp(p->backend, CONFIG_BACKEND_OCI) != 0 || p->network.mode != CONFIG_NETWORK_NAT)
        check_complain(k, p, "network.allow", "needs backend oci and `mode: nat`");
    else if (!egress_check(allow, why))
        check_complain(k, p, "network.allow", why);
}

/* What real boxes are made from. */
static void check_box(const struct check *k, const struct config_profile *p)
{
    bool is_host = strcmp(p->rootfs, "host") == 0;

    if (!is_host && !form_is_root(k->c, p->rootfs))
        check_complain(
            k, p, "rootfs",
            "must be host, or the absolute path of a directory, not / itself, without '..'");
    if (!str_is_empty(p->snapshot) &&
        (strlen(p->snapshot) != 16 || strspn(p->snapshot, "0123456789abcdef") != 16))
        check_complain(k, p, "snapshot",
                       "must be the id of a snapshot, 16 digits: names are not unique, and anybody "
                       "may give them");
    if (!is_host && !str_is_empty(p->image))
        check_complain(k, p, "image", "and rootfs exclude each other: give one of them");
    check_oci(k, p);
    if (p->sockets == CONFIG_SOCKETS_UNIX &&
        (strcmp(p->backend, CONFIG_BACKEND_OCI) != 0 || p->network.mode != CONFIG_NETWORK_NONE))
        check_complain(k, p, "sockets", "unix needs backend oci and `network: none`");
    check_egress(k, p);
    if (p->terminals != CONFIG_TERMINALS_MAX && strcmp(p->backend, CONFIG_BACKEND_OCI) != 0)
        check_complain(k, p, "terminals",
                       "needs backend oci: those of containers are the engine's");
    if (p->durable && strcmp(p->backend, CONFIG_BACKEND_OCI) != 0)
        check_complain(k, p, "durable", "needs backend oci");
    else if (p->durable && p->limits.disk == 0)
        check_complain(k, p, "durable", "needs a disk of the box's own: limits.disk must not be 0");
    if (p->on_drift == CONFIG_DRIFT_REBASE && strcmp(p->backend, CONFIG_BACKEND_OCI) != 0 &&
        strcmp(p->backend, CONFIG_BACKEND_DOCKER) != 0)
        check_complain(k, p, "on_drift",
                       "rebase needs backend oci or docker: other backends have no snapshots");
    else if (p->on_drift == CONFIG_DRIFT_REBASE && p->limits.disk == 0 &&
             strcmp(p->backend, CONFIG_BACKEND_OCI) == 0)
        check_complain(k, p, "on_drift",
                       "rebase needs a disk of the box's own: limits.disk must not be 0");
    if (!is_user_name(p->user))
        check_complain(
            k, p, "user",
            "must be a user's name: up to 32 letters, digits and . _ -, a letter or _ first");
    if (p->limits.memory > 0 && p->limits.memory < LIMIT_LEAST)
        check_complain(k, p, "limits.memory", "must be 0 (no limit) or at least 16M");
    if (p->limits.disk > 0 && p->limits.disk < LIMIT_LEAST)
        check_complain(k, p, "limits.disk", "must be 0 (no limit) or at least 16M");
    check_mounts(k, p);
}

static bool has_our_agent(const struct config_profile *p)
{
    return strcmp(p->backend, CONFIG_BACKEND_OCI) == 0 ||
           (strcmp(p->backend, CONFIG_BACKEND_DOCKER) == 0 && p->agent == CONFIG_AGENT_INJECT);
}

static void check_commands(const struct check *k, const struct config_profile *p)
{
    static const char text[] =
        "is for boxes with our agent: backend oci, or docker with `agent: inject`";

    if (!str_is_empty(p->setup.command) && !has_our_agent(p))
        check_complain(k, p, "setup.command", text);
    if (!str_is_empty(p->warm_up.command) && !has_our_agent(p))
        check_complain(k, p, "warm_up.command", text);
}

static void check_labels(const struct check *k, const struct config_profile *p)
{
    static const char extra[] = "._-/";
    char path[CONFIG_NAME_MAX + 16];

    for (unsigned i = 0; i < p->labels.count; i++) {
        const struct config_pair *l = &p->labels.pairs[i];

        if (str_is_name(l->key, CONFIG_NAME_MAX, extra) &&
            (str_is_empty(l->value) || str_is_name(l->value, CONFIG_NAME_MAX, extra)))
            continue;
        (void) snprintf(path, sizeof(path), "labels.%.64s", l->key);
        check_complain(k, p, path, "must be up to 64 letters, digits and . _ - /, its name too");
    }
}

void check_profile(const struct check *k, const struct config_profile *p)
{
    char path[CONFIG_PATH_MAX + 8];

    check_backend(k, p);
    check_box(k, p);
    check_commands(k, p);
    check_labels(k, p);
    check_price(k, p);
    check_docker(k, p);
    check_remote(k, p);
    if (p->warm.min > p->warm.max)
        check_complain_more(k, p, "warm.min", p->warm.min, "warm.max", p->warm.max);
    if (p->create.backoff_min_ms > p->create.backoff_max_ms)
        check_complain_more(k, p, "create.backoff_min_ms", p->create.backoff_min_ms,
                            "create.backoff_max_ms", p->create.backoff_max_ms);
    if (strlen(p->sim.socket) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
        check_complain(k, p, "sim.socket", "is longer than the 107 bytes a socket may have");
    for (unsigned i = 0; i < p->env.count; i++) {
        if (config_is_env_name(p->env.pairs[i].key))
            continue;
        (void) snprintf(path, sizeof(path), "env.%.64s", p->env.pairs[i].key);
        check_complain(k, p, path, "cannot be the name of a variable");
    }
}
