/* rand.c - xoshiro256** seeded by splitmix64, and getrandom(2). */
#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/compiler.h"

static uint64_t rotate_left(uint64_t v, int k)
{
    return v << k | v >> (64 - k);
}

void rand_seed(struct rand *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z;

        seed += 0x9e3779b97f4a7c15ULL;
        z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        r->s[i] = z ^ (z >> 31);
    }
}

uint64_t rand_next(struct rand *r)
{
    uint64_t result = rotate_left(r->s[1] * 5, 7) * 9;
    uint64_t t = r->s[1] << 17;

    r->s[2] ^= r->s[0];
    r->s[3] ^= r->s[1];
    r->s[1] ^= r->s[2];
    r->s[0] ^= r->s[3];
    r->s[2] ^= t;
    r->s[3] = rotate_left(r->s[3], 45);
    return result;
}

uint64_t rand_below(struct rand *r, uint64_t n)
{
    assert(n > 0);
    return rand_next(r) % n; /* the bias of 2^-40 and less does not matter for jitter and tests */
}

uint64_t rand_between(struct rand *r, uint64_t lo, uint64_t hi)
{
    assert(lo <= hi);
    return lo + (hi - lo == UINT64_MAX ? rand_next(r) : rand_below(r, hi - lo + 1));
}

void rand_secure(void *dst, size_t len)
{
    char *p = dst;

    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            abort();
        }
        p += n;
        len -= (size_t) n;
    }
}
