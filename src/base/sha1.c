/* sha1.c - FIPS 180-4, for short texts. */
#include "base/sha1.h"

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

static uint32_t rotate(uint32_t v, unsigned n)
{
    return v << n | v >> (32 - n);
}

static void add_block(uint32_t state[5], const unsigned char *block)
{
    uint32_t w[80];
    uint32_t a = state[0];
    uint32_t b = state[1];
    uint32_t c = state[2];
    uint32_t d = state[3];
    uint32_t e = state[4];

    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t) block[4 * i] << 24 | (uint32_t) block[4 * i + 1] << 16 |
               (uint32_t) block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (unsigned i = 0; i < 80; i++) {
        static const uint32_t constants[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        uint32_t f = i < 20   ? (b & c) | (~b & d)
                     : i < 40 ? b ^ c ^ d
                     : i < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        uint32_t next = rotate(a, 5) + f + e + constants[i / 20] + w[i];

        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sha1(const void *data, size_t len, unsigned char ret_digest[SHA1_LEN])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    unsigned char text[128] = {0};
    size_t size = len < 56 ? 64 : 128;

    assert(len <= SHA1_TEXT_MAX);
    memcpy(text, data, len);
    text[len] = 0x80;
    text[size - 2] = (unsigned char) (len * 8 >> 8);
    text[size - 1] = (unsigned char) (len * 8);
    for (size_t at = 0; at < size; at += 64)
        add_block(state, text + at);
    for (unsigned i = 0; i < SHA1_LEN; i++)
        ret_digest[i] = (unsigned char) (state[i / 4] >> (24 - 8 * (i % 4)));
}
