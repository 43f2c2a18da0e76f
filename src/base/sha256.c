/* sha256.c - FIPS 180-4. Small on purpose: linking a crypto library for one hash would be the larger dependency. The
 * digest of a snapshot is one of gigabytes, so the instructions that processors have for it are used where they are. */
#include "base/sha256.h"

#include <stdatomic.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t v, int k)
{
    return v >> k | v << (32 - k);
}

static void expand_block(const unsigned char *p, uint32_t w[64])
{
    for (int i = 0; i < 16; i++, p += 4)
        w[i] = (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15];
        uint32_t b = w[i - 2];
        uint32_t s0 = rotate_right(a, 7) ^ rotate_right(a, 18) ^ (a >> 3);
        uint32_t s1 = rotate_right(b, 17) ^ rotate_right(b, 19) ^ (b >> 10);

        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void add_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    uint32_t v[8];

    expand_block(block, w);
    memcpy(v, state, sizeof(v));
    for (int i = 0; i < 64; i++) {
        uint32_t e1 = rotate_right(v[4], 6) ^ rotate_right(v[4], 11) ^ rotate_right(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + e1 + choice + round_constants[i] + w[i];
        uint32_t e0 = rotate_right(v[0], 2) ^ rotate_right(v[0], 13) ^ rotate_right(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);

        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + e0 + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

#ifdef __x86_64__
#define WITH_SHA __attribute__((target("sha,sse4.1,ssse3")))

/* Four rounds at a time: `m` has the last sixteen words of the message, four in each, the oldest at i % 4. */
WITH_SHA static void add_block_fast(uint32_t state[8], const unsigned char *block)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i abef = _mm_set_epi32((int) state[0], (int) state[1], (int) state[4], (int) state[5]);
    __m128i cdgh = _mm_set_epi32((int) state[2], (int) state[3], (int) state[6], (int) state[7]);
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    uint32_t out[8];
    __m128i m[4];

    for (int i = 0; i < 4; i++)
        m[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) (const void *) (block + 16 * i)),
                                big_endian);
    for (int i = 0; i < 16; i++) {
        const __m128i k = _mm_loadu_si128((const __m128i *) (const void *) &round_constants[4 * i]);
        const __m128i last = m[(i + 3) % 4];
        __m128i wk = _mm_add_epi32(m[i % 4], k);

        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
        wk = _mm_shuffle_epi32(wk, 0x0e); /* the upper two words */
        abef = _mm_sha256rnds2_epu32(abef, cdgh, wk);
        m[i % 4] =
            _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(m[i % 4], m[(i + 1) % 4]),
                                               _mm_alignr_epi8(last, m[(i + 2) % 4], 4)),
                                 last);
    }
    _mm_storeu_si128((__m128i *) (void *) out, _mm_add_epi32(abef, abef_before));
    _mm_storeu_si128((__m128i *) (void *) (out + 4), _mm_add_epi32(cdgh, cdgh_before));
    state[0] = out[3];
    state[1] = out[2];
    state[4] = out[1];
    state[5] = out[0];
    state[2] = out[7];
    state[3] = out[6];
    state[6] = out[5];
    state[7] = out[4];
}

static bool ask_processor(void)
{
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;

    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSSE3) != 0 && (c & bit_SSE4_1) != 0 &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
}

/* Asked once: in a virtual machine the question takes longer than a short hash. */
static bool is_fast(void)
{
    static atomic_int known; /* 0: not yet */
    int now = atomic_load_explicit(&known, memory_order_relaxed);

    if (now == 0) {
        now = ask_processor() ? 1 : -1;
        atomic_store_explicit(&known, now, memory_order_relaxed);
    }
    return now > 0;
}
#else
static void add_block_fast(uint32_t state[8], const unsigned char *block)
{
    add_block(state, block);
}

static bool is_fast(void)
{
    return false;
}
#endif

bool sha256_init_plain(struct sha256 *s)
{
    sha256_init(s);
    if (!s->is_fast)
        return false;
    s->is_fast = false;
    return true;
}

void sha256_init(struct sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(s->state, start, sizeof(start));
    s->len = 0;
    s->is_fast = is_fast();
}

static void take_block(struct sha256 *s, const unsigned char *block)
{
    if (s->is_fast)
        add_block_fast(s->state, block);
    else
        add_block(s->state, block);
}

void sha256_add(struct sha256 *s, const void *data, size_t len)
{
    const unsigned char *p = data;

    while (len > 0) {
        size_t used = (size_t) (s->len % 64);
        size_t n = 64 - used < len ? 64 - used : len;

        if (n == 64) {
            take_block(s, p);
        } else {
            memcpy(s->block + used, p, n);
            if (used + n == 64)
                take_block(s, s->block);
        }
        s->len += n;
        p += n;
        len -= n;
    }
}

void sha256_end(struct sha256 *s, unsigned char ret_digest[32])
{
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = s->len * 8;
    unsigned char length[8];
    size_t used = (size_t) (s->len % 64);

    sha256_add(s, padding, used < 56 ? 56 - used : 120 - used);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char) (bits >> (56 - 8 * i));
    sha256_add(s, length, sizeof(length));
    for (int i = 0; i < 32; i++)
        ret_digest[i] = (unsigned char) (s->state[i / 4] >> (24 - 8 * (i % 4)));
}
