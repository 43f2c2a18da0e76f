/* docker_options.c - the formats of texts below docker.*: checked when the configuration is read,
 * parsed again when a container is described to Docker. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/schema.h"

enum { GPUS_MAX = 64, SHM_LEAST = 64 * 1024 };

bool config_list_next(const char **list, char *word, size_t cap)
{
    size_t len = strcspn(*list, ",");
    bool is_whole;

    if (**list == '\0')
        return false;
    is_whole = str_copy_n(word, cap, *list, len);
    assert(is_whole); /* no word is longer than the list */
    *list += (*list)[len] == ',' ? len + 1 : len;
    return true;
}

const char *config_volume_problem(const char *text, struct config_volume *ret)
{
    char entry[CONFIG_TEXT_MAX + 1];
    char *there;
    char *how;

    *ret = (struct config_volume){0};
    str_copy_cut(entry, sizeof(entry), text);
    there = strchr(entry, ':');
    if (there == NULL)
        return "must be like name:/there or name:/there:ro";
    *there++ = '\0';
    how = strchr(there, ':');
    if (how != NULL)
        *how++ = '\0';
    if (how != NULL && strcmp(how, "ro") != 0 && strcmp(how, "rw") != 0)
        return "can only end in :ro or :rw";
    if (strlen(entry) < 2 || !str_is_name(entry, CONFIG_NAME_MAX, "_.-") ||
        strchr("_.-", entry[0]) != NULL)
        return "needs the name of a volume: letters, digits and . _ -, a letter or digit first";
    if (!config_path_is_plain(there))
        return "needs an absolute path without '..', '.' and double or trailing slashes";
    if (!config_box_path_is_free(there))
        return "cannot cover /, /proc, /sys, /dev or /.sandpool of a box";
    str_copy_cut(ret->name, sizeof(ret->name), entry);
    str_copy_cut(ret->box_path, sizeof(ret->box_path), there);
    ret->is_read_only = how != NULL && strcmp(how, "ro") == 0;
    return NULL;
}

static bool is_octal(const char *s)
{
    size_t len = strspn(s, "01234567");

    return len > 0 && len <= 5 && s[len] == '\0';
}

static bool is_tmpfs_option(const char *word)
{
    uint64_t v;

    if (strcmp(word, "exec") == 0)
        return true;
    if (strncmp(word, "size=", 5) == 0)
        return str_parse_size(word + 5, &v) && v > 0;
    if (strncmp(word, "mode=", 5) == 0)
        return is_octal(word + 5);
    if (strncmp(word, "uid=", 4) == 0 || strncmp(word, "gid=", 4) == 0)
        return str_parse_u64(word + 4, 0, UINT32_MAX - 1, &v);
    return strncmp(word, "nr_inodes=", 10) == 0 && str_parse_u64(word + 10, 1, UINT32_MAX, &v);
}

static const char *tmpfs_problem(const char *box_path, const char *options)
{
    char word[CONFIG_PATH_MAX + 1];

    if (!config_path_is_plain(box_path))
        return "needs an absolute path without '..', '.' and double or trailing slashes";
    if (!config_box_path_is_free(box_path))
        return "cannot cover /, /proc, /sys, /dev or /.sandpool of a box";
    while (config_list_next(&options, word, sizeof(word))) {
        if (!is_tmpfs_option(word))
            return "can have size=64m, mode=1777, uid=, gid=, nr_inodes= and exec";
    }
    return NULL;
}

static const char *gpus_problem(const char *text)
{
    static const char why[] = "must be all, how many (1 to 64), or which: device=0,1";
    bool is_device = strncmp(text, "device=", 7) == 0;
    char word[CONFIG_PATH_MAX + 1];
    uint64_t count;

    if (*text == '\0' || strcmp(text, "all") == 0)
        return NULL;
    if (strspn(text, "0123456789") == strlen(text))
        return str_parse_u64(text, 1, GPUS_MAX, &count) ? NULL : why;
    text += is_device ? 7 : 0;
    if (*text == '\0' || text[strlen(text) - 1] == ',')
        return why;
    while (config_list_next(&text, word, sizeof(word))) {
        if (!str_is_name(word, CONFIG_PATH_MAX, "_.:-"))
            return why;
    }
    return NULL;
}

static bool is_capability(const char *name)
{
    static const char *const known[] = {
        "AUDIT_CONTROL",   "AUDIT_READ",   "AUDIT_WRITE",
        "BLOCK_SUSPEND",   "BPF",          "CHECKPOINT_RESTORE",
        "CHOWN",           "DAC_OVERRIDE", "DAC_READ_SEARCH",
        "FOWNER",          "FSETID",       "IPC_LOCK",
        "IPC_OWNER",       "KILL",         "LEASE",
        "LINUX_IMMUTABLE", "MAC_ADMIN",    "MAC_OVERRIDE",
        "MKNOD",           "NET_ADMIN",    "NET_BIND_SERVICE",
        "NET_BROADCAST",   "NET_RAW",      "PERFMON",
        "SETFCAP",         "SETGID",       "SETPCAP",
        "SETUID",          "SYSLOG",       "SYS_ADMIN",
        "SYS_BOOT",        "SYS_CHROOT",   "SYS_MODULE",
        "SYS_NICE",        "SYS_PACCT",    "SYS_PTRACE",
        "SYS_RAWIO",       "SYS_RESOURCE", "SYS_TIME",
        "SYS_TTY_CONFIG",  "WAKE_ALARM",
    };

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i], name) == 0)
            return true;
    }
    return false;
}

static const char *entry_problem(const char *key, const char *entry, const char *text,
                                 char why[CONFIG_WHY_MAX])
{
    (void) snprintf(why, CONFIG_WHY_MAX, "entry '%.64s' %s", entry, text);
    return key;
}

static const char *list_problem(const struct config_profile *p, char why[CONFIG_WHY_MAX])
{
    const struct config_map *tmpfs = &p->docker.tmpfs;
    struct config_volume volume;
    char word[CONFIG_TEXT_MAX + 1];
    const char *text;

    for (const char *list = p->docker.volumes; config_list_next(&list, word, sizeof(word));) {
        text = config_volume_problem(word, &volume);
        if (text != NULL)
            return entry_problem("docker.volumes", word, text, why);
    }
    for (unsigned i = 0; i < tmpfs->count; i++) {
        text = tmpfs_problem(tmpfs->pairs[i].key, tmpfs->pairs[i].value);
        if (text != NULL)
            return entry_problem("docker.tmpfs", tmpfs->pairs[i].key, text, why);
    }
    for (const char *list = p->docker.cap_add; config_list_next(&list, word, sizeof(word));) {
        if (!is_capability(word))
            return entry_problem("docker.cap_add", word,
                                 "is not a capability: use names like NET_RAW, without CAP_", why);
    }
    return NULL;
}

static const char *problem(const char *key, const char *text, char why[CONFIG_WHY_MAX])
{
    (void) snprintf(why, CONFIG_WHY_MAX, "%s", text);
    return key;
}

const char *config_docker_problem(const struct config_profile *p, char why[CONFIG_WHY_MAX])
{
    bool has_network = p->network.mode == CONFIG_NETWORK_NAT;
    const char *gpus = gpus_problem(p->docker.gpus);

    if (p->docker.reach == CONFIG_REACH_ADDRESS && !has_network)
        return problem("docker.reach",
                       "address needs `network: nat`: otherwise a box has no address", why);
    if (!has_network && (strstr(p->runtime, "runsc") != NULL || strstr(p->runtime, "kata") != NULL))
        return problem(
            "network",
            "must be nat with backend docker and this runtime: no socket can be passed in", why);
    if (p->docker.shm_size > 0 && p->docker.shm_size < SHM_LEAST)
        return problem("docker.shm_size", "must be 0 (as the engine does) or at least 64k", why);
    if (gpus != NULL)
        return problem("docker.gpus", gpus, why);
    return list_problem(p, why);
}
