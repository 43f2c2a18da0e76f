/* Who loses rights by a new configuration: callers whose token is gone or another one, and operators who are none any more. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "front/principal.h"
#include "tests/lib/unit.h"

static char ana[] = "ana";
static char ben[] = "ben";
static char eva[] = "eva";
static char new[] = "new";
static char one[] = "1111";
static char two[] = "2222";
static char red[] = "3333";
static char odd[] = "4444";
static struct config_pair three[] = {{ana, one}, {ben, two}, {eva, red}};
static struct config_pair mixed[] = {{eva, red}, {ana, one}, {new, odd}};
static struct config_pair turned[] = {{ana, one}, {ben, odd}, {eva, red}};

static struct config *make(struct config_pair *pairs, unsigned count, const char *operators,
                           const char *uids)
{
    struct config *c = xcalloc(1, sizeof(*c));

    c->tcp.tokens = (struct config_map){.count = count, .pairs = pairs};
    str_copy_cut(c->tcp.operators, sizeof(c->tcp.operators), operators);
    str_copy_cut(c->operator_uids, sizeof(c->operator_uids), uids);
    return c;
}

/* Frees both. */
static void expect(struct config *was, struct config *now, const uint64_t *losers, size_t count)
{
    struct buf found;

    buf_init(&found, 4096);
    front_put_losers(was, now, &found);
    assert_int_equal(found.len, count * sizeof(losers[0]));
    if (count > 0)
        assert_memory_equal(found.data, losers, found.len);
    buf_fini(&found);
    free(was);
    free(now);
}

static void test_tokens(void **state UNUSED)
{
    uint64_t all[] = {front_principal(ana), front_principal(ben), front_principal(eva)};

    expect(make(three, 3, "", ""), make(three, 3, "", ""), NULL, 0);
    expect(make(three, 3, "", ""), make(mixed, 3, "", ""), &all[1], 1);
    expect(make(three, 3, "", ""), make(turned, 3, "", ""), &all[1], 1);
    expect(make(three, 3, "", ""), make(NULL, 0, "", ""), all, 3);
    expect(make(NULL, 0, "", ""), make(three, 3, "ben", ""), NULL, 0);
}

static void test_operators(void **state UNUSED)
{
    uint64_t loser = front_principal(eva);
    uint64_t uids[] = {4242, 4244};

    expect(make(three, 3, "ana, eva", ""), make(three, 3, "ana", ""), &loser, 1);
    expect(make(three, 3, "ana", ""), make(three, 3, "eva,ana", ""), NULL, 0);
    expect(make(NULL, 0, "eva, ana", ""), make(NULL, 0, "ana", ""), &loser, 1);
    expect(make(NULL, 0, "eva", ""), make(three, 3, "eva", ""), NULL, 0);
    expect(make(NULL, 0, "", "4242, 4243,4244"), make(NULL, 0, "", "4243,4245"), uids, 2);
    expect(make(NULL, 0, "", "0,4242"), make(NULL, 0, "", "4242"), NULL,
           0); /* root is always one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_operators),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
