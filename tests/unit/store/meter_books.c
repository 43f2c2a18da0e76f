/* meter_books.c - see meter_books.h. */
#include "meter_books.h"

#include <string.h>

#define TOGGLER 6 /* its box is changed as often as all others together */

const char *const meter_users[USERS] = {"u0", "u1", "u2", "u3", "u4", "u5"};
static const struct store_price prices[] = {
    {.currency = ""},
    {.per_hour = 1, .per_use = {1, 2, 3, 4}, .currency = "EUR"},
    {.per_hour = 123456789, .currency = "EUR"},
    {.per_hour = 99999999999, .per_start = 13, .per_use = {10000000000, 77}, .currency = "EUR"},
    {.per_hour = 7, .per_start = 1, .per_use = {0, 0, 999999937}, .currency = "EUR"}};

/* --- the script: whatever comes, also what no pool would do --- */

static void put_count(struct change *c, enum store_counter k, uint64_t n)
{
    c->counts.known |= 1U << k;
    c->counts.n[k] = n;
}

/* Some numbers go back, some are missing now and then, one is always. */
static void script_sample(struct script *s, struct change *c)
{
    uint64_t back = rand_below(&s->rand, 8) == 0 ? rand_below(&s->rand, 3000000) : 0;
    uint64_t cpu_us = c->number * 977;

    put_count(c, STORE_NET_OUT, c->number);
    put_count(c, STORE_CPU_US, cpu_us > back ? cpu_us - back : 0);
    put_count(c, STORE_MEMORY, rand_below(&s->rand, 1ULL << 33));
    if (rand_below(&s->rand, 4) != 0)
        put_count(c, STORE_DISK_WRITE, c->number * 4099);
    if (rand_below(&s->rand, 4) == 0)
        put_count(c, STORE_NET_IN, c->number / 3);
}

void script_next(struct script *s, struct change *c)
{
    static const enum now likely[] = {BLANK,  LEASED,   LEASED, LEASED,  PARKED,  PARKED,
                                      PAUSED, DELETING, GONE,   SAMPLED, SAMPLED, SAMPLED};

    *c = (struct change){.number = ++s->next};
    s->at_ms += rand_below(&s->rand, 4);
    c->at_ms = s->at_ms;
    c->box = rand_below(&s->rand, 2) == 0 ? TOGGLER : 1 + rand_below(&s->rand, BOXES);
    c->next = likely[rand_below(&s->rand, ARRAY_LEN(likely))];
    c->user = (unsigned) (c->box % USERS);
    c->generation = 1 + rand_below(&s->rand, 16) / 15; /* mostly the same binding */
    c->price = (unsigned) (rand_below(&s->rand, 16) < 15 ? c->box % 5 : rand_below(&s->rand, 5));
    if (rand_below(&s->rand, 4) == 0 &&
        (c->next == DELETING || c->next == GONE)) /* when it was seen last */
        c->true_ms = c->at_ms - rand_below(&s->rand, 2000);
    if (c->next == SAMPLED)
        script_sample(s, c);
}

static bool is_owned(enum now now)
{
    return now != BLANK && now != GONE;
}

static void fill_box(struct change *c)
{
    static const char *const states[] = {"", "blank", "leased", "parked", "leased", "deleting"};
    struct store_box *box = &c->put.w.u.box;

    box->state = states[c->next];
    box->is_paused = c->next == PAUSED;
    box->user = is_owned(c->next) ? meter_users[c->user] : "";
    box->thread = is_owned(c->next) ? "t" : "";
    box->profile = "p";
    box->principal = is_owned(c->next) ? c->user : 0;
    box->price = prices[c->price];
    box->generation = c->generation;
}

void change_fill(struct change *c)
{
    if (c->next == SAMPLED) {
        c->put = (struct put){.w = {.kind = STORE_SAMPLE}};
        c->put.w.u.sample.box = c->box;
        c->put.w.u.sample.now = c->counts;
        return;
    }
    if (c->next == GONE)
        c->put = put_forget(c->box);
    else if (c->next == BLANK)
        c->put = put_box(c->box, "blank");
    else if (c->next == DELETING)
        c->put = put_deleting(c->box, meter_users[c->user], "died");
    else
        c->put = put_lease(c->box, meter_users[c->user], c->generation);
    c->put.w.u.box.true_ms = c->true_ms;
    c->put.w.u.box.created_ms = c->number;
    if (c->next != GONE)
        fill_box(c);
}

/* --- samples --- */

static bool is_of_binding(const struct account *a)
{
    const struct tally *t = &a->tally;

    return t->has_binding && t->is_owned == is_owned(a->now) &&
           (!t->is_owned || t->user == a->user) && t->generation == a->generation;
}

static void tally_bind(struct account *a)
{
    struct tally *t = &a->tally;

    if (is_of_binding(a))
        return;
    t->has_binding = true;
    t->user = a->user;
    t->is_owned = is_owned(a->now);
    t->generation = a->generation;
    t->open = (struct store_counts){.known = 0};
    if (a->is_open && a->since_ms > t->at_ms)
        t->at_ms = a->since_ms;
}

/* What this sample says has come since the one before. */
static uint64_t tally_more(const struct tally *t, enum store_counter k, uint64_t now,
                           uint64_t at_ms)
{
    uint64_t ms = at_ms > t->at_ms ? at_ms - t->at_ms : 0;

    if ((t->seen.known & (1U << k)) == 0)
        return 0;
    if (k == STORE_MEMORY)
        return (uint64_t) (((unsigned __int128) t->seen.n[k] + now) * ms / 2 / 1048576);
    return now > t->seen.n[k] ? now - t->seen.n[k] : 0;
}

static void account_sample(struct account *a, const struct change *c)
{
    struct tally *t = &a->tally;

    if (!a->is_there)
        return;
    a->sample = c->number;
    tally_bind(a);
    for (unsigned k = 0; k < STORE_COUNTER_COUNT; k++) {
        struct store_counts more = {.known = 1U << k};

        if ((c->counts.known & (1U << k)) == 0)
            continue;
        more.n[k] = tally_more(t, k, c->counts.n[k], c->at_ms);
        if (a->is_open)
            store_counts_add(&t->open, &more);
        t->seen.known |= 1U << k;
        if (k == STORE_MEMORY || c->counts.n[k] > t->seen.n[k])
            t->seen.n[k] = c->counts.n[k];
    }
    if (c->at_ms > t->at_ms)
        t->at_ms = c->at_ms;
}

/* --- intervals --- */

/* Samples that were taken in it belong to it, whatever its length. */
static void account_close(struct books *b, struct account *a, uint64_t at_ms)
{
    const struct store_price *price = &prices[a->price];
    uint64_t ms = at_ms > a->since_ms ? at_ms - a->since_ms : 0;
    struct store_counts counts = {.known = 0};
    unsigned __int128 nominal;

    if (is_of_binding(a)) {
        counts = a->tally.open;
        a->tally.open = (struct store_counts){.known = 0};
    }
    nominal = store_usage_nominal(price->per_hour, ms, 0) +
              store_usage_of_counts(price->per_use, &counts);
    b->ms[a->user][a->now - LEASED] += ms;
    b->nominal[a->user] += nominal;
    store_counts_add(&b->counts[a->user], &counts);
    a->used_ms[a->now - LEASED] += ms;
    a->used_nominal += nominal + store_usage_nominal(0, 0, a->is_start_due ? price->per_start : 0);
}

static bool is_metered(enum now now)
{
    return now == LEASED || now == PARKED || now == PAUSED;
}

static bool is_same_owner(const struct account *a, const struct change *c)
{
    return a->is_there && c->next != GONE && is_owned(a->now) == is_owned(c->next) &&
           (!is_owned(a->now) || a->user == c->user) && a->generation == c->generation;
}

static void account_turn(struct books *b, struct account *a, const struct change *c)
{
    uint64_t at_ms = c->true_ms != 0 ? c->true_ms : c->at_ms;
    bool is_bound =
        a->is_open && is_metered(c->next) && a->user == c->user && a->generation == c->generation;
    bool is_kept = is_same_owner(a, c);

    a->is_there = c->next != GONE;
    if (is_bound && a->now == c->next && a->price == c->price) /* nothing that counts */
        return;
    if (a->is_open) {
        account_close(b, a, at_ms);
        at_ms = at_ms > a->since_ms ? at_ms : a->since_ms; /* time does not run backwards */
    }
    if (!is_kept) {
        memset(a->used_ms, 0, sizeof(a->used_ms));
        a->used_nominal = 0;
    }
    a->is_open = is_metered(c->next);
    a->is_start_due = !is_bound;
    a->now = c->next;
    a->user = c->user;
    a->price = c->price;
    a->generation = c->generation;
    a->since_ms = at_ms;
    if (a->is_open && !is_bound)
        b->nominal[a->user] += store_usage_nominal(0, 0, prices[a->price].per_start);
}

void books_apply(struct books *b, const struct change *c)
{
    struct account *a = &b->accounts[c->box - 1];

    if (c->next == SAMPLED) {
        account_sample(a, c);
        return;
    }
    account_turn(b, a, c);
    a->number = c->number;
    if (c->next == GONE) {
        a->sample = 0;
        a->tally = (struct tally){.has_binding = false};
    }
}

void books_close(struct books *b, uint64_t at_ms)
{
    for (size_t i = 0; i < BOXES; i++)
        if (b->accounts[i].is_open)
            account_close(b, &b->accounts[i], at_ms);
}
