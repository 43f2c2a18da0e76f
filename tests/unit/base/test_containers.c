/* Lists, heaps, maps, buffers and the generators behind them, the larger ones against a model. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rand.h"
#include "tests/lib/unit.h"

struct item {
    struct list_node link;
    struct heap_node timer;
    struct map_node entry;
    uint64_t key;
};

static struct item *item_of(struct list_node *n)
{
    return container_of(n, struct item, link);
}

static void test_list_order(void **state)
{
    struct list list;
    struct item items[4] = {0};

    (void) state;
    list_init(&list);
    assert_true(list_is_empty(&list));
    assert_null(list_first(&list));
    assert_null(list_last(&list));
    assert_null(list_pop_front(&list));
    assert_null(list_pop_back(&list));
    list_push_back(&list, &items[1].link);
    list_push_back(&list, &items[2].link);
    list_push_front(&list, &items[0].link);
    assert_int_equal(list.len, 3);
    assert_ptr_equal(item_of(list_first(&list)), &items[0]);
    assert_ptr_equal(item_of(list_next(&list, &items[0].link)), &items[1]);
    assert_ptr_equal(item_of(list_last(&list)), &items[2]);
    assert_null(list_next(&list, &items[2].link));
    list_remove(&list, &items[1].link);
    list_remove(&list, &items[1].link); /* twice is once */
    assert_false(list_is_linked(&items[1].link));
    assert_int_equal(list.len, 2);
    assert_ptr_equal(item_of(list_pop_front(&list)), &items[0]);
    list_push_back(&list, &items[3].link);
    assert_ptr_equal(item_of(list_pop_back(&list)), &items[3]);
    assert_false(list_is_linked(&items[3].link));
    assert_ptr_equal(item_of(list_last(&list)), &items[2]);
    assert_ptr_equal(item_of(list_pop_back(&list)), &items[2]);
    assert_true(list_is_empty(&list));
    assert_null(list_last(&list));
}

static void test_list_move(void **state)
{
    struct list from;
    struct list to;
    struct item items[2] = {0};

    (void) state;
    list_init(&from);
    list_move(&from, &to);
    assert_true(list_is_empty(&to));
    list_push_back(&from, &items[0].link);
    list_push_back(&from, &items[1].link);
    list_move(&from, &to);
    assert_true(list_is_empty(&from));
    assert_int_equal(to.len, 2);
    list_push_back(&from, list_pop_front(&to));
    assert_ptr_equal(item_of(list_first(&from)), &items[0]);
    assert_ptr_equal(item_of(list_first(&to)), &items[1]);
    assert_null(list_next(&to, &items[1].link));
}

enum { MODEL = 200 };

static void check_heap(const struct heap *h, const struct item *items)
{
    uint64_t smallest = UINT64_MAX;
    size_t count = 0;

    for (size_t i = 0; i < MODEL; i++) {
        if (!heap_has(&items[i].timer))
            continue;
        count++;
        assert_int_equal(items[i].timer.key, items[i].key);
        assert_ptr_equal(h->nodes[items[i].timer.index], &items[i].timer);
        if (items[i].key < smallest)
            smallest = items[i].key;
    }
    assert_int_equal(h->len, count);
    if (count == 0)
        assert_null(heap_top(h));
    else
        assert_int_equal(heap_top(h)->key, smallest);
}

static void test_heap_against_model(void **state)
{
    static struct item items[MODEL];
    struct heap h;
    struct rand r;
    uint64_t last = 0;

    (void) state;
    rand_seed(&r, 7);
    heap_init(&h, 0);
    for (int step = 0; step < 20000; step++) {
        struct item *it = &items[rand_below(&r, MODEL)];

        if (rand_below(&r, 3) == 0) {
            heap_remove(&h, &it->timer);
            assert_false(heap_has(&it->timer));
        } else {
            it->key = rand_below(&r, 50); /* many are equal */
            heap_set(&h, &it->timer, it->key);
        }
        if (step % 16 == 0)
            check_heap(&h, items);
    }
    while (heap_top(&h) != NULL) {
        assert_true(heap_top(&h)->key >= last);
        last = heap_top(&h)->key;
        heap_remove(&h, heap_top(&h));
    }
    heap_fini(&h);
}

static void test_heap_reserve(void **state)
{
    struct heap_node nodes[64] = {0};
    struct heap_node **before;
    struct heap h;

    (void) state;
    heap_init(&h, 64);
    before = h.nodes;
    for (size_t i = 0; i < 64; i++)
        heap_insert(&h, &nodes[i], 64 - i);
    assert_ptr_equal(h.nodes, before); /* given all its room at init: nothing was allocated */
    assert_int_equal(heap_top(&h)->key, 1);
    heap_fini(&h);
}

static bool has_key(const struct map_node *n, const void *key)
{
    return container_of(n, const struct item, entry)->key == *(const uint64_t *) key;
}

static void test_map_against_model(void **state)
{
    static struct item items[MODEL];
    struct map m;
    struct rand r;
    size_t count = 0;

    (void) state;
    rand_seed(&r, 11);
    map_init(&m, 20); /* fewer than there will be: chains */
    for (uint64_t i = 0; i < MODEL; i++)
        items[i].key = i;
    for (int step = 0; step < 20000; step++) {
        struct item *it = &items[rand_below(&r, MODEL)];
        const struct map_node *found = map_find(&m, hash_u64(it->key), has_key, &it->key);

        assert_ptr_equal(found, it->entry.is_linked ? &it->entry : NULL);
        if (it->entry.is_linked) {
            map_remove(&m, &it->entry);
            map_remove(&m, &it->entry); /* twice is once */
            count--;
        } else {
            map_insert(&m, &it->entry, hash_u64(it->key));
            count++;
        }
        assert_int_equal(m.len, count);
    }
    map_fini(&m);
}

static void test_map_same_hash(void **state)
{
    struct item items[3] = {{.key = 1}, {.key = 2}, {.key = 3}};
    struct map m;

    (void) state;
    map_init(&m, 0);
    for (size_t i = 0; i < 3; i++)
        map_insert(&m, &items[i].entry, 42);
    map_remove(&m, &items[1].entry);
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(map_find(&m, 42, has_key, &items[i].key), i == 1 ? NULL : &items[i].entry);
    map_fini(&m);
}

/* Several of one key are found newest first, also between others that share their bucket. */
static void test_map_same_key(void **state)
{
    struct item items[6] = {{.key = 5}, {.key = 9}, {.key = 5}, {.key = 9}, {.key = 5}, {.key = 7}};
    const uint64_t hashes[6] = {32, 48, 32, 48, 32, 64}; /* 16 buckets: all in the first */
    const uint64_t key = 5;
    struct map m;

    (void) state;
    map_init(&m, 0);
    for (size_t i = 0; i < 6; i++)
        map_insert(&m, &items[i].entry, hashes[i]);
    for (int left = 4; left >= 0; left -= 2) {
        struct map_node *n = map_find(&m, 32, has_key, &key);

        for (int i = left; i >= 0; i -= 2, n = map_find_next(n, has_key, &key))
            assert_ptr_equal(n, &items[i].entry);
        assert_null(n);
        map_remove(&m, &items[left].entry);
    }
    assert_null(map_find(&m, 32, has_key, &key));
    map_remove(&m, &items[5].entry); /* the first of the bucket, then one that is alone in it */
    map_remove(&m, &items[1].entry);
    assert_ptr_equal(map_find(&m, 48, has_key, &items[3].key), &items[3].entry);
    assert_null(map_find(&m, 32, has_key, &key));
    map_remove(&m, &items[3].entry);
    assert_null(map_find(&m, 48, has_key, &items[3].key));
    assert_int_equal(m.len, 0);
    map_fini(&m);
}

static void test_hash(void **state)
{
    (void) state;
    assert_int_equal(hash_str("abc"), hash_bytes("abc", 3));
    assert_int_not_equal(hash_str("abc"), hash_str("abd"));
}

static void test_buf_limit(void **state)
{
    struct buf b;

    (void) state;
    buf_init(&b, 10);
    assert_string_equal(buf_str(&b), "");
    buf_puts(&b, "12345");
    buf_printf(&b, "%d", 67890);
    assert_false(buf_failed(&b));
    assert_string_equal(buf_str(&b), "1234567890");
    buf_append(&b, "", 0);
    assert_false(buf_failed(&b)); /* nothing is not too much */
    buf_putc(&b, 'x');
    assert_true(buf_failed(&b));
    buf_puts(&b, "");
    assert_string_equal(buf_str(&b), "1234567890");
    buf_reset(&b);
    assert_false(buf_failed(&b));
    assert_string_equal(buf_str(&b), "");
    buf_printf(&b, "%s", "12345678901");
    assert_true(buf_failed(&b));
    assert_int_equal(b.len, 0);
    buf_fini(&b);
    assert_int_equal(b.max, 10);
    buf_init(&b, 0);
    assert_true(buf_reserve(&b, 0));
    assert_false(buf_reserve(&b, 1));
    buf_fini(&b);
}

static void test_buf_escaped(void **state)
{
    struct buf b;

    (void) state;
    buf_init(&b, 100);
    buf_put_escaped(&b, "aZ09-_.~ /?&=%\n\xc3\xa4");
    assert_string_equal(buf_str(&b), "aZ09-_.~%20%2F%3F%26%3D%25%0A%C3%A4");
    buf_fini(&b);
}

static void test_buf_consume_and_take(void **state)
{
    struct buf b;
    size_t len;
    char *text;

    (void) state;
    buf_init(&b, 100000);
    buf_consume(&b, 0);
    for (int i = 0; i < 10000; i++)
        buf_printf(&b, "%d", i % 10);
    buf_consume(&b, 9995);
    assert_string_equal(buf_str(&b), "56789");
    buf_consume(&b, 5);
    assert_string_equal(buf_str(&b), "");
    buf_append(&b, "a\0b", 3);
    text = buf_take(&b, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(text, "a\0b", 4);
    free(text);
    assert_int_equal(b.len, 0);
    buf_puts(&b, "again");
    assert_string_equal(buf_str(&b), "again");
    buf_fini(&b);
}

static void test_buf_without_memory(void **state)
{
    struct buf b;

    (void) state;
    buf_init(&b, 1000);
    buf_puts(&b, "kept");
    mem_fail_after(1, false);
    buf_printf(&b, "%500d", 1);
    assert_true(buf_failed(&b));
    assert_string_equal(buf_str(&b), "kept");
    buf_puts(&b, "x"); /* the failure stays until the reset, although memory is back */
    assert_string_equal(buf_str(&b), "kept");
    buf_reset(&b);
    buf_printf(&b, "%500d", 1);
    assert_int_equal(b.len, 500);
    buf_fini(&b);
    mem_fail_after(2, true);
    assert_non_null(b.data = try_realloc(NULL, 8));
    assert_null(try_realloc(NULL, 8));
    assert_null(try_realloc(NULL, 8));
    mem_fail_after(0, false);
    buf_fini(&b);
}

static void test_rand(void **state)
{
    struct rand a;
    struct rand b;
    unsigned char secret[2][64] = {{0}};
    bool seen[7] = {false};

    (void) state;
    rand_seed(&a, 1);
    rand_seed(&b, 1);
    /* Seeds that failed once are kept for ever: the sequence must not change. */
    assert_int_equal(rand_next(&a), 0xb3f2af6d0fc710c5);
    assert_int_equal(rand_next(&b), 0xb3f2af6d0fc710c5);
    for (int i = 0; i < 1000; i++) {
        uint64_t v = rand_below(&a, 7);

        assert_int_equal(v, rand_below(&b, 7));
        assert_in_range(v, 0, 6);
        seen[v] = true;
        assert_in_range(rand_between(&a, 10, 12), 10, 12);
        (void) rand_between(&b, 10, 12);
    }
    for (size_t i = 0; i < ARRAY_LEN(seen); i++)
        assert_true(seen[i]);
    assert_int_equal(rand_between(&a, 5, 5), 5);
    (void) rand_between(&a, 0, UINT64_MAX);
    rand_seed(&b, 2);
    assert_int_not_equal(rand_next(&b), 0xb3f2af6d0fc710c5);
    rand_secure(secret[0], sizeof(secret[0]));
    rand_secure(secret[1], sizeof(secret[1]));
    assert_memory_not_equal(secret[0], secret[1], sizeof(secret[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_order),
        cmocka_unit_test(test_list_move),
        cmocka_unit_test(test_heap_against_model),
        cmocka_unit_test(test_heap_reserve),
        cmocka_unit_test(test_map_against_model),
        cmocka_unit_test(test_map_same_hash),
        cmocka_unit_test(test_map_same_key),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_buf_escaped),
        cmocka_unit_test(test_buf_limit),
        cmocka_unit_test(test_buf_consume_and_take),
        cmocka_unit_test(test_buf_without_memory),
        cmocka_unit_test(test_rand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
