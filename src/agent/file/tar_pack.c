/* tar_pack.c - the tree is walked twice: first to see whether everything can be read, as long as an error can be
 * answered, then to send it. */
#include "agent/file/tar_pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "agent/file/tree.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/tar_write.h"

enum { LINKED_MAX = 65536 }; /* files with several names; beyond that each is a file of its own */

static const char operation[] = "tar";

struct linked {
    struct map_node node;
    struct linked *next;
    dev_t dev;
    ino_t ino;
    char name[]; /* of the first */
};

struct pack {
    struct file_wire *wire;
    struct buf text;
    struct map by_inode;
    struct linked *all;
    uint32_t skipped;
    int sys; /* of the check */
    bool is_broken;
};

/* --- the check --- */

static enum file_tree_next check(void *ctx, const struct file_node *n)
{
    struct pack *p = ctx;
    mode_t mode = n->st.st_mode;

    if (!file_wire_is_wanted(p->wire)) {
        p->is_broken = true;
        return FILE_TREE_STOP;
    }
    if (!S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode))
        p->skipped++;
    if (S_ISREG(mode) && faccessat(n->dir, n->name, R_OK, AT_EACCESS) != 0 && errno != ENOENT) {
        p->sys = errno;
        return FILE_TREE_STOP;
    }
    return FILE_TREE_ON;
}

/* --- the archive --- */

static bool is_same(const struct map_node *node, const void *key)
{
    const struct linked *l = container_of(node, struct linked, node);
    const struct stat *st = key;

    return l->dev == st->st_dev && l->ino == st->st_ino;
}

/* The name that this file was packed under before, or NULL. */
static const char *first_name(struct pack *p, const struct file_node *n)
{
    uint64_t hash = hash_u64((uint64_t) n->st.st_ino ^ (uint64_t) n->st.st_dev << 48);
    const struct map_node *found;
    struct linked *l;
    size_t len = strlen(n->rel) + 1;

    if (n->st.st_nlink < 2)
        return NULL;
    found = map_find(&p->by_inode, hash, is_same, &n->st);
    if (found != NULL)
        return container_of(found, struct linked, node)->name;
    if (p->by_inode.len >= LINKED_MAX)
        return NULL;
    l = xcalloc(1, sizeof(*l) + len);
    l->dev = n->st.st_dev;
    l->ino = n->st.st_ino;
    memcpy(l->name, n->rel, len);
    l->next = p->all;
    p->all = l;
    map_insert(&p->by_inode, &l->node, hash);
    return NULL;
}

static bool put_text(struct pack *p)
{
    bool is_put = !buf_failed(&p->text) && file_wire_put(p->wire, buf_str(&p->text), p->text.len);

    buf_reset(&p->text);
    return is_put;
}

/* False: the answer is broken off. */
static bool put_file(struct pack *p, const struct file_node *n)
{
    static const char zeros[TAR_BLOCK];
    struct stat st;
    AUTO_CLOSE int fd = plain_open_file(n->dir, n->name, O_RDONLY | O_NOFOLLOW, 0, &st);
    const char *first;

    if (fd < 0)
        return errno == ENOENT; /* it vanished */
    first = first_name(p, n);
    if (first != NULL) {
        tar_put_header(&p->text, TAR_HARD_LINK, n->rel, first, &st);
        return put_text(p);
    }
    tar_put_header(&p->text, TAR_FILE, n->rel, NULL, &st);
    return put_text(p) && file_wire_send_file(p->wire, fd, 0, (uint64_t) st.st_size) &&
           file_wire_put(p->wire, zeros, tar_padding((uint64_t) st.st_size));
}

static bool put_link(struct pack *p, const struct file_node *n)
{
    char target[FILE_PATH_MAX];
    ssize_t len = readlinkat(n->dir, n->name, target, sizeof(target) - 1);

    if (len < 0)
        return errno == ENOENT;
    target[len] = '\0';
    tar_put_header(&p->text, TAR_SYMLINK, n->rel, target, &n->st);
    return put_text(p);
}

static enum file_tree_next put(void *ctx, const struct file_node *n)
{
    struct pack *p = ctx;
    bool is_put = true;

    if (S_ISDIR(n->st.st_mode)) {
        tar_put_header(&p->text, TAR_DIRECTORY, n->rel, NULL, &n->st);
        is_put = put_text(p);
    } else if (S_ISLNK(n->st.st_mode)) {
        is_put = put_link(p, n);
    } else if (S_ISREG(n->st.st_mode)) {
        is_put = put_file(p, n);
    }
    p->is_broken = !is_put;
    return is_put ? FILE_TREE_ON : FILE_TREE_STOP;
}

static int walk(struct pack *p, const char *path, struct file_error *error,
                enum file_tree_next (*visit)(void *ctx, const struct file_node *node))
{
    static struct file_tree tree;
    int dir = plain_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    int sys;

    if (dir < 0)
        return file_error_sys(error, operation, path, errno);
    memset(&tree, 0, sizeof(tree));
    tree.is_strict = true;
    tree.visit = visit;
    tree.ctx = p;
    sys = file_tree_run(&tree, dir, path);
    if (sys == 0)
        sys = p->sys;
    return sys == 0 ? SP_OK : file_error_sys(error, operation, tree.path, sys);
}

static void forget(struct pack *p)
{
    while (p->all != NULL) {
        struct linked *l = p->all;

        p->all = l->next;
        map_remove(&p->by_inode, &l->node);
        free(l);
    }
    map_fini(&p->by_inode);
    buf_fini(&p->text);
}

int tar_pack_run(struct file_wire *wire, const char *path, struct file_error *error)
{
    struct pack p = {.wire = wire};
    int rc = walk(&p, path, error, check);

    if (rc != SP_OK || p.is_broken)
        return rc;
    buf_init(&p.text, 256 * 1024);
    map_init(&p.by_inode, 4096);
    if (file_wire_begin(wire, p.skipped) && walk(&p, path, error, put) == SP_OK && !p.is_broken) {
        tar_put_end(&p.text);
        if (put_text(&p))
            (void) !file_wire_end(wire); /* without the end the agent breaks the answer off */
    }
    forget(&p);
    return SP_OK;
}
