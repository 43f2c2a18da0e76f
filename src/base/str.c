/* str.c - bounded string helpers. */
#include "base/str.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { DAY_S = 24 * 60 * 60 };

bool str_copy_n(char *dst, size_t cap, const char *src, size_t len)
{
    assert(cap > 0);
    if (len >= cap) {
        dst[0] = '\0';
        return false;
    }
    memcpy(dst, src, len);
    dst[len] = '\0';
    return true;
}

bool str_copy(char *dst, size_t cap, const char *src)
{
    return str_copy_n(dst, cap, src, strlen(src));
}

void str_copy_cut(char *dst, size_t cap, const char *src)
{
    size_t len = strlen(src);

    assert(cap > 0);
    if (len >= cap)
        len = cap - 1;
    memcpy(dst, src, len);
    dst[len] = '\0';
}

bool str_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;

    if (*s == '\0')
        return false;
    for (; *s != '\0'; s++) {
        unsigned digit = (unsigned) (*s - '0');

        if (digit > 9 || v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    if (v < min || v > max)
        return false;
    *ret = v;
    return true;
}

bool str_parse_hex64(const char *s, uint64_t *ret)
{
    uint64_t v = 0;

    for (int i = 0; i < 16; i++) {
        if (s[i] >= '0' && s[i] <= '9')
            v = v << 4 | (uint64_t) (s[i] - '0');
        else if (s[i] >= 'a' && s[i] <= 'f')
            v = v << 4 | (uint64_t) (s[i] - 'a' + 10);
        else
            return false;
    }
    if (s[16] != '\0')
        return false;
    *ret = v;
    return true;
}

bool str_parse_size(const char *s, uint64_t *ret)
{
    static const char units[] = "kmgt";
    char digits[24];
    size_t len = strlen(s);
    unsigned shift = 0;
    uint64_t v;

    if (len > 0 && isalpha((unsigned char) s[len - 1])) {
        const char *unit = strchr(units, tolower((unsigned char) s[len - 1]));

        if (unit == NULL)
            return false;
        shift = 10 * (unsigned) (unit - units + 1);
        len--;
    }
    if (!str_copy_n(digits, sizeof(digits), s, len) ||
        !str_parse_u64(digits, 0, UINT64_MAX >> shift, &v))
        return false;
    *ret = v << shift;
    return true;
}

void str_hex(char *dst, const void *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++) {
        *dst++ = digits[p[i] >> 4];
        *dst++ = digits[p[i] & 15];
    }
    *dst = '\0';
}

void str_hex64(char *dst, uint64_t v)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char) (v >> (56 - 8 * i));
    str_hex(dst, bytes, sizeof(bytes));
}

bool str_is_name(const char *s, size_t max, const char *extra)
{
    size_t len = strlen(s);

    if (len == 0 || len > max)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char) s[i];

        if (c >= 128 || (!isalnum(c) && strchr(extra, c) == NULL))
            return false;
    }
    return true;
}

size_t str_utf8_len(const char *s)
{
    /* The second byte's range excludes overlong forms, surrogates and what is past U+10FFFF. */
    unsigned char first = (unsigned char) s[0];
    unsigned char second_min = 0x80;
    unsigned char second_max = 0xbf;
    size_t len;

    if (first >= 0x01 && first <= 0x7f)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        len = 2;
    else if (first >= 0xe0 && first <= 0xef)
        len = 3;
    else if (first >= 0xf0 && first <= 0xf4)
        len = 4;
    else
        return 0;
    if (first == 0xe0)
        second_min = 0xa0;
    else if (first == 0xed)
        second_max = 0x9f;
    else if (first == 0xf0)
        second_min = 0x90;
    else if (first == 0xf4)
        second_max = 0x8f;
    for (size_t i = 1; i < len; i++) {
        unsigned char c = (unsigned char) s[i];

        if (c < second_min || c > second_max)
            return 0;
        second_min = 0x80;
        second_max = 0xbf;
    }
    return len;
}

bool str_is_utf8(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = text[i] == '\0' ? 1 : str_utf8_len(text + i);

        if (n == 0 || n > len - i)
            return false;
        i += n;
    }
    return true;
}

unsigned str_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned row[3][STR_WORD_MAX + 1];

    if (a_len > STR_WORD_MAX || b_len > STR_WORD_MAX)
        return STR_WORD_MAX;
    for (unsigned j = 0; j <= b_len; j++)
        row[0][j] = j;
    for (unsigned i = 1; i <= a_len; i++) {
        unsigned *cur = row[i % 3];
        const unsigned *prev = row[(i + 2) % 3];
        const unsigned *before = row[(i + 1) % 3];

        cur[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            unsigned best = prev[j - 1] + (a[i - 1] != b[j - 1]);

            best = MIN_OF(best, prev[j] + 1);
            best = MIN_OF(best, cur[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = MIN_OF(best, before[j - 2] + 1);
            cur[j] = best;
        }
    }
    return row[a_len % 3][b_len];
}

bool str_equal_secret(const char *a, const char *b)
{
    size_t len = strlen(a);
    volatile unsigned char diff = 0;

    if (strlen(b) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        diff = (unsigned char) (diff | (unsigned char) (a[i] ^ b[i]));
    return diff == 0;
}

/* Writes `n` with that many digits and what follows them; the end is returned. */
static char *put_digits(char *dst, uint64_t n, int digits, char next)
{
    for (int i = digits - 1; i >= 0; i--, n /= 10)
        dst[i] = (char) ('0' + n % 10);
    dst[digits] = next;
    return dst + digits + 1;
}

/* By hand: strftime() and snprintf() took a twentieth of the time of a warm acquire. */
void str_iso8601(char *dst, uint64_t wall_ms)
{
    uint64_t seconds = wall_ms / 1000;
    uint64_t in_day = seconds % DAY_S;
    /* Years that begin in March have their leap day last. 719,468 days lie between March of the year 0
     * and 1970; 146,097 make 400 years, after which the calendar repeats. */
    uint64_t days = seconds / DAY_S + 719468;
    uint64_t in_era = days % 146097;
    uint64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    uint64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    uint64_t from_march =
        (5 * in_year + 2) / 153; /* months of 31, 30, 31, 30, 31 days: 153 for five */
    uint64_t month = from_march < 10 ? from_march + 3 : from_march - 9;

    year += days / 146097 * 400 + (month <= 2 ? 1 : 0);
    dst = put_digits(dst, year % 10000, 4, '-');
    dst = put_digits(dst, month, 2, '-');
    dst = put_digits(dst, in_year - (153 * from_march + 2) / 5 + 1, 2, 'T');
    dst = put_digits(dst, in_day / 3600, 2, ':');
    dst = put_digits(dst, in_day / 60 % 60, 2, ':');
    dst = put_digits(dst, in_day % 60, 2, '.');
    dst = put_digits(dst, wall_ms % 1000, 3, 'Z');
    *dst = '\0';
}
