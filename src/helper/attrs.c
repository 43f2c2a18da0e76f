/* attrs.c - attributes are moved from box to box: ids in them are shifted. */
#include "helper/attrs.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/mem.h"
#include "helper/merge.h"

#define CAPABILITY "security.capability"
#define ACL "system.posix_acl_"

enum { TAG_USER = 2, TAG_GROUP = 8, LIST_MAX = 65536 };

static bool is_acl(const char *attr)
{
    return strcmp(attr, ACL "access") == 0 || strcmp(attr, ACL "default") == 0;
}

/* By `from` less and `to` more; false: it is no access list, or names an id that no box has. */
static bool shift_acl(unsigned char *value, size_t len, uint32_t from, uint32_t to)
{
    struct posix_acl_xattr_entry e;
    size_t at = sizeof(struct posix_acl_xattr_header);

    if (len < at || (len - at) % sizeof(e) != 0)
        return false;
    for (; at < len; at += sizeof(e)) {
        uint32_t id;

        memcpy(&e, value + at, sizeof(e));
        if (le16toh(e.e_tag) != TAG_USER && le16toh(e.e_tag) != TAG_GROUP)
            continue;
        id = le32toh(e.e_id);
        if (id < from || id - from >= MERGE_IDS)
            return false;
        e.e_id = htole32(id - from + to);
        memcpy(value + at, &e, sizeof(e));
    }
    return true;
}

/* In a box without the id of its root: 20 bytes; on the disk with it: 24. */
static size_t capability_to_box(unsigned char *value, size_t len, uint32_t id_base)
{
    struct vfs_ns_cap_data c = {0};

    if (len == XATTR_CAPS_SZ_2 && id_base == 0)
        return len; /* of what boxes are built on, which has ids as in a box */
    if (len != XATTR_CAPS_SZ_3)
        return 0; /* of the host's root: a box cannot have made it */
    memcpy(&c, value, XATTR_CAPS_SZ_3);
    if ((le32toh(c.magic_etc) & VFS_CAP_REVISION_MASK) != VFS_CAP_REVISION_3 ||
        le32toh(c.rootid) != id_base)
        return 0;
    c.magic_etc = htole32(VFS_CAP_REVISION_2 | (le32toh(c.magic_etc) & VFS_CAP_FLAGS_EFFECTIVE));
    memcpy(value, &c, XATTR_CAPS_SZ_2);
    return XATTR_CAPS_SZ_2;
}

static bool is_wanted(const char *attr)
{
    assert(attr != NULL); /* where there is no list, its length is 0 */
    return strncmp(attr, "user.", 5) == 0 || strcmp(attr, CAPABILITY) == 0 || is_acl(attr);
}

static int read_one(const char *path, const char *attr, uint32_t id_base,
                    int (*each)(void *ctx, const char *attr, unsigned char *value, size_t len,
                                struct err *err),
                    void *ctx, struct err *err)
{
    unsigned char *value = xcalloc(1, ATTR_VALUE_MAX);
    ssize_t n = lgetxattr(path, attr, value, ATTR_VALUE_MAX);
    size_t len = n > 0 ? (size_t) n : 0;
    int rc = SP_OK;

    if (n < 0)
        rc = err_sys(err, SP_IO, errno, "read the attribute '%.80s'", attr);
    else if (strcmp(attr, CAPABILITY) == 0 && (len = capability_to_box(value, len, id_base)) == 0)
        attr = NULL;
    else if (is_acl(attr) && !shift_acl(value, len, id_base, 0))
        attr = NULL;
    if (rc == SP_OK && attr != NULL)
        rc = each(ctx, attr, value, len, err);
    free(value);
    return rc;
}

/* *ret_len is 0, and nothing to free, for most files: they have none. */
static int read_list(const char *path, char **ret, size_t *ret_len, struct err *err)
{
    char *list = NULL;
    ssize_t n = llistxattr(path, NULL, 0);

    *ret_len = 0;
    if (n > 0) {
        list = xcalloc(1, LIST_MAX);
        n = llistxattr(path, list, LIST_MAX);
    }
    if (n < 0 && errno != ENOTSUP) {
        (void) err_sys(err, SP_IO, errno, "list the attributes of '%.80s'", path);
        free(list);
        return err->code;
    }
    *ret = list;
    *ret_len = n > 0 ? (size_t) n : 0;
    return SP_OK;
}

int attrs_read(int dir, const char *name, uint32_t id_base,
               int (*each)(void *ctx, const char *attr, unsigned char *value, size_t len,
                           struct err *err),
               void *ctx, struct err *err)
{
    char path[64 + 256 + 16];
    char *list = NULL;
    size_t len;
    int rc;

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
    rc = read_list(path, &list, &len, err);
    for (size_t at = 0; rc == SP_OK && at < len; at += strlen(list + at) + 1)
        if (is_wanted(list + at))
            rc = read_one(path, list + at, id_base, each, ctx, err);
    free(list);
    return rc;
}

int attrs_copy(int dir, const char *name, int to_dir, const char *to_name, struct err *err)
{
    char from[64 + 256 + 16];
    char to[64 + 256 + 16];
    unsigned char *value = NULL;
    char *list = NULL;
    size_t len;
    int rc;

    (void) snprintf(from, sizeof(from), "/proc/self/fd/%d/%s", dir, name);
    (void) snprintf(to, sizeof(to), "/proc/self/fd/%d/%s", to_dir, to_name);
    rc = read_list(from, &list, &len, err);
    if (rc == SP_OK && len > 0)
        value = xcalloc(1, ATTR_VALUE_MAX);
    for (size_t at = 0; rc == SP_OK && at < len; at += strlen(list + at) + 1) {
        ssize_t n;

        if (!is_wanted(list + at))
            continue;
        n = lgetxattr(from, list + at, value, ATTR_VALUE_MAX);
        if (n < 0 || lsetxattr(to, list + at, value, (size_t) n, 0) != 0)
            rc = err_sys(err, SP_IO, errno, "copy the attribute '%.80s' of '%.80s'", list + at,
                         name);
    }
    free(value);
    free(list);
    return rc;
}

static int set_capability(const char *path, uint32_t id_base, const unsigned char *value,
                          size_t len)
{
    struct vfs_ns_cap_data c = {0};

    if (len != XATTR_CAPS_SZ_2) {
        errno = EINVAL;
        return -1;
    }
    memcpy(&c, value, XATTR_CAPS_SZ_2);
    if ((le32toh(c.magic_etc) & VFS_CAP_REVISION_MASK) != VFS_CAP_REVISION_2) {
        errno = EINVAL;
        return -1;
    }
    c.magic_etc = htole32(VFS_CAP_REVISION_3 | (le32toh(c.magic_etc) & VFS_CAP_FLAGS_EFFECTIVE));
    c.rootid = htole32(id_base);
    return lsetxattr(path, CAPABILITY, &c, XATTR_CAPS_SZ_3, 0);
}

int attrs_set(int dir, const char *name, uint32_t id_base, const char *attr, unsigned char *value,
              size_t len, struct err *err)
{
    char path[64 + 256 + 16];
    int r;

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
    if (strlen(attr) > ATTR_NAME_MAX || len > ATTR_VALUE_MAX || !is_wanted(attr) ||
        (is_acl(attr) && !shift_acl(value, len, 0, id_base)))
        return err_set(err, SP_INVALID_FIELD, "the attribute '%.80s' of '%.80s'", attr, name);
    if (strcmp(attr, CAPABILITY) == 0)
        r = set_capability(path, id_base, value, len);
    else
        r = lsetxattr(path, attr, value, len, 0);
    if (r != 0)
        return err_sys(err, errno == EINVAL ? SP_INVALID_FIELD : SP_IO, errno,
                       "set the attribute '%.80s' of '%.80s'", attr, name);
    return SP_OK;
}
