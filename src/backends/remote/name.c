/* name.c - ids at the provisioner, and refs: an id, and which container is meant. */
#include <stdio.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/str.h"

enum {
    GOOD_MAX = 51,  /* "sandbox-{id}-svc" is the name of a Service: 63 at most */
    PREFIX_HEX = 8, /* of the instance */
};

bool remote_name_is_good(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= GOOD_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len && name[0] != '-' &&
           name[len - 1] != '-';
}

void remote_name_of(const struct remote *r, const struct backend_labels *l,
                    char ret[REMOTE_NAME_MAX + 1])
{
    char hex[17];

    if (!str_is_empty(l->sandbox_id)) { /* one that is too long is refused by the create */
        str_copy_cut(ret, REMOTE_NAME_MAX + 1, l->sandbox_id);
        return;
    }
    str_hex64(hex, l->box_id);
    (void) snprintf(ret, REMOTE_NAME_MAX + 1, "%s%s", r->prefix, hex);
}

bool remote_name_is_ours(const struct remote *r, const char *name, uint64_t *ret_box_id)
{
    size_t len = strlen(r->prefix);

    return strncmp(name, r->prefix, len) == 0 && str_parse_hex64(name + len, ret_box_id) &&
           *ret_box_id != 0;
}

bool remote_name_is_blank(const char *name)
{
    uint64_t id;

    return strncmp(name, "sp-", 3) == 0 && strspn(name + 3, "0123456789abcdef") == PREFIX_HEX &&
           name[3 + PREFIX_HEX] == '-' && str_parse_hex64(name + 3 + PREFIX_HEX + 1, &id);
}

void remote_put_ref(char ret[BACKEND_REF_MAX + 1], const char *name, const char *uid)
{
    (void) snprintf(ret, BACKEND_REF_MAX + 1, "%s%s%s", name, str_is_empty(uid) ? "" : "@", uid);
}

bool remote_read_ref(const char *ref, char ret_name[REMOTE_NAME_MAX + 1],
                     char ret_uid[REMOTE_UID_MAX + 1])
{
    size_t len = strcspn(ref, "@");

    return len > 0 && str_copy_n(ret_name, REMOTE_NAME_MAX + 1, ref, len) &&
           str_copy(ret_uid, REMOTE_UID_MAX + 1, ref[len] == '@' ? ref + len + 1 : "");
}

void remote_find_name(const struct remote *r, const struct backend_box *box,
                      char ret_name[REMOTE_NAME_MAX + 1], char ret_uid[REMOTE_UID_MAX + 1])
{
    ret_uid[0] = '\0';
    if (!remote_read_ref(box->ref, ret_name, ret_uid))
        remote_name_of(r, &box->labels, ret_name);
}

bool remote_is_other(const char *uid_a, const char *uid_b)
{
    return !str_is_empty(uid_a) && !str_is_empty(uid_b) && strcmp(uid_a, uid_b) != 0;
}
