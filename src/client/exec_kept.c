/* exec_kept.c - a bounded part of an output: its beginning and its end. */
#include <stdlib.h>
#include <string.h>

#include "client/exec_internal.h"

void exec_kept_init(struct exec_kept *k, size_t max)
{
    k->head_max = max / 2;
    k->tail_max = max - k->head_max;
    k->is_cut = false;
    buf_init(&k->head, k->head_max + 1);
    buf_init(&k->tail, 2 * k->tail_max + 1);
}

void exec_kept_fini(struct exec_kept *k)
{
    buf_fini(&k->head);
    buf_fini(&k->tail);
}

/* The tail has room for two of its size, so that a byte is moved once and not with each piece. */
static void add_to_tail(struct exec_kept *k, const char *data, size_t len)
{
    if (len > k->tail_max) {
        k->is_cut = true;
        data += len - k->tail_max;
        len = k->tail_max;
    }
    if (k->tail.len + len > 2 * k->tail_max) {
        buf_consume(&k->tail, k->tail.len + len - k->tail_max);
        k->is_cut = true;
    }
    buf_append(&k->tail, data, len);
}

void exec_kept_add(struct exec_kept *k, const char *data, size_t len)
{
    size_t n = MIN_OF(len, k->head_max - k->head.len);

    buf_append(&k->head, data, n);
    if (len > n)
        add_to_tail(k, data + n, len - n);
}

char *exec_kept_take(struct exec_kept *k, size_t *ret_len)
{
    char *all;

    if (k->tail.len > k->tail_max) {
        buf_consume(&k->tail, k->tail.len - k->tail_max);
        k->is_cut = true;
    }
    all =
        buf_failed(&k->head) || buf_failed(&k->tail) ? NULL : malloc(k->head.len + k->tail.len + 1);
    if (all == NULL)
        return NULL;
    memcpy(all, buf_str(&k->head), k->head.len);
    memcpy(all + k->head.len, buf_str(&k->tail), k->tail.len);
    *ret_len = k->head.len + k->tail.len;
    all[*ret_len] = '\0';
    return all;
}
