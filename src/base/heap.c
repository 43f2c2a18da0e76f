/* heap.c - binary min-heap; every node knows its place, so any one can be taken out. */
#include "base/heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"

static void place(struct heap *h, struct heap_node *n, size_t index)
{
    h->nodes[index] = n;
    n->index = index;
}

static void sift_up(struct heap *h, struct heap_node *n, size_t index)
{
    while (index > 1 && h->nodes[index / 2]->key > n->key) {
        place(h, h->nodes[index / 2], index);
        index /= 2;
    }
    place(h, n, index);
}

static void sift_down(struct heap *h, struct heap_node *n, size_t index)
{
    for (;;) {
        size_t child = index * 2;

        if (child > h->len)
            break;
        if (child < h->len && h->nodes[child + 1]->key < h->nodes[child]->key)
            child++;
        if (h->nodes[child]->key >= n->key)
            break;
        place(h, h->nodes[child], index);
        index = child;
    }
    place(h, n, index);
}

void heap_init(struct heap *h, size_t reserve)
{
    h->len = 0;
    h->cap = reserve > 0 ? reserve + 1 : 16;
    h->nodes = xcalloc(h->cap, sizeof(struct heap_node *));
}

void heap_fini(struct heap *h)
{
    free(h->nodes);
    memset(h, 0, sizeof(*h));
}

void heap_insert(struct heap *h, struct heap_node *n, uint64_t key)
{
    assert(!heap_has(n));
    if (h->len + 2 > h->cap) {
        h->cap *= 2;
        h->nodes = xrealloc(h->nodes, h->cap * sizeof(struct heap_node *));
    }
    h->len++;
    n->key = key;
    sift_up(h, n, h->len);
}

void heap_remove(struct heap *h, struct heap_node *n)
{
    size_t index = n->index;
    struct heap_node *last;

    if (!heap_has(n))
        return;
    last = h->nodes[h->len];
    h->len--;
    n->index = 0;
    if (last == n)
        return;
    if (index > 1 && h->nodes[index / 2]->key > last->key)
        sift_up(h, last, index);
    else
        sift_down(h, last, index);
}

void heap_set(struct heap *h, struct heap_node *n, uint64_t key)
{
    if (heap_has(n) && n->key == key)
        return;
    heap_remove(h, n);
    heap_insert(h, n, key);
}
