/* dns.c - reads and writes messages of DNS. */
#include "helper/dns.h"

#include <string.h>

#include "base/compiler.h"

#define HEAD 12u
#define CLASS_IN 1u
#define TYPE_CNAME 5u
#define TYPE_OPT 41u
#define POINTER 0xc0u
#define POINTERS_MAX 32u /* in one name */
#define ALIASES_MAX 8u   /* one behind the other */
#define RECORDS_MAX 128u /* that are looked at */
#define ROOM_UDP 1232u   /* what we take by UDP: less than any path carries */
#define FIXED 10u        /* of a record, behind its name */

/* Bits of the second word. */
enum {
    IS_ANSWER = 0x8000,
    OPCODE = 0x7800,
    IS_CUT = 0x0200,
    RECURSE = 0x0100,
    CAN_RECURSE = 0x0080,
    CODE = 0x000f
};

static uint16_t get16(const uint8_t *at)
{
    return (uint16_t) (at[0] << 8 | at[1]);
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t) get16(at) << 16 | get16(at + 2);
}

static void put16(uint8_t **at, unsigned v)
{
    *(*at)++ = (uint8_t) (v >> 8);
    *(*at)++ = (uint8_t) v;
}

static void put32(uint8_t **at, uint32_t v)
{
    put16(at, v >> 16);
    put16(at, v & 0xffff);
}

/* --- names --- */

static bool put_label(char *name, size_t *len, const uint8_t *label, size_t count, bool *is_odd)
{
    if (*len + count + 1 > EGRESS_NAME_MAX + 1)
        return false;
    for (size_t i = 0; i < count; i++) {
        char c = (char) label[i];

        if (c >= 'A' && c <= 'Z')
            c = (char) (c - 'A' + 'a');
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
            *is_odd = true;
        name[(*len)++] = c;
    }
    name[(*len)++] = '.';
    return true;
}

/* The name at *at, which moves behind it. A pointer leads only to what comes before it, so this ends. False: there is no
 * name. One with characters that no host has is "". */
static bool get_name(const uint8_t *data, size_t size, size_t *at, char name[EGRESS_NAME_MAX + 1])
{
    bool is_odd = false;
    size_t len = 0;
    size_t pos = *at;
    size_t before = *at;
    size_t end = 0; /* behind the first pointer */

    for (unsigned jumps = 0;;) {
        uint8_t count;

        if (pos >= size)
            return false;
        count = data[pos++];
        if (count == 0)
            break;
        if ((count & POINTER) == POINTER) {
            if (pos >= size || ++jumps > POINTERS_MAX)
                return false;
            end = end == 0 ? pos + 1 : end;
            pos = (size_t) (count & ~POINTER) << 8 | data[pos];
            if (pos < HEAD || pos >= before)
                return false;
            before = pos;
        } else {
            if (count > 63 || pos + count > size ||
                !put_label(name, &len, data + pos, count, &is_odd))
                return false;
            pos += count;
        }
    }
    *at = end != 0 ? end : pos;
    name[len > 0 && !is_odd ? len - 1 : 0] = '\0';
    return true;
}

/* --- questions --- */

bool dns_read_question(const uint8_t *data, size_t len, struct dns_question *ret,
                       enum dns_code *ret_code)
{
    size_t at = HEAD;

    memset(ret, 0, sizeof(*ret));
    if (len < HEAD || (get16(data + 2) & IS_ANSWER) != 0)
        return false;
    ret->id = get16(data);
    ret->flags = get16(data + 2);
    *ret_code = DNS_OK;
    if ((ret->flags & OPCODE) != 0) {
        *ret_code = DNS_NOT_DONE;
        return true;
    }
    /* One question, no answers; behind it may be what is not looked at. */
    if (get16(data + 4) != 1 || get16(data + 6) != 0 || !get_name(data, len, &at, ret->name) ||
        at + 4 > len || at + 4 - HEAD > sizeof(ret->wire)) {
        ret->name[0] = '\0'; /* it may have no end */
        *ret_code = DNS_MALFORMED;
        return true;
    }
    ret->wire_len = at + 4 - HEAD;
    memcpy(ret->wire, data + HEAD, ret->wire_len);
    ret->type = get16(data + at);
    if (get16(data + at + 2) != CLASS_IN)
        *ret_code = DNS_REFUSED;
    return true;
}

size_t dns_write_answer(const struct dns_question *q, enum dns_code code, const uint32_t *list,
                        size_t *count, uint32_t ttl_s, uint8_t out[DNS_MESSAGE_MAX])
{
    const size_t record = 2 + FIXED + 4;
    uint8_t *at = out;

    *count = MIN_OF(*count, (DNS_MESSAGE_MAX - HEAD - q->wire_len) / record);
    put16(&at, q->id);
    put16(&at, IS_ANSWER | (q->flags & (OPCODE | RECURSE)) | CAN_RECURSE | (unsigned) code);
    put16(&at, q->wire_len > 0 ? 1 : 0);
    put16(&at, (unsigned) *count);
    put32(&at, 0); /* nothing else */
    memcpy(at, q->wire, q->wire_len);
    at += q->wire_len;
    for (size_t i = 0; i < *count; i++) {
        put16(&at, POINTER << 8 | HEAD); /* the name of the question */
        put16(&at, DNS_A);
        put16(&at, CLASS_IN);
        put32(&at, ttl_s);
        put16(&at, 4);
        put32(&at, list[i]);
    }
    return (size_t) (at - out);
}

size_t dns_write_question(const struct dns_question *q, uint16_t id, uint8_t out[DNS_MESSAGE_MAX])
{
    uint8_t *at = out;

    put16(&at, id);
    put16(&at, RECURSE);
    put16(&at, 1);
    put32(&at, 0);
    put16(&at, 1); /* the option below */
    for (const char *s = q->name; *s != '\0';) {
        size_t len = strcspn(s, ".");

        *at++ = (uint8_t) len;
        memcpy(at, s, len);
        at += len;
        s += len + (s[len] == '.' ? 1 : 0);
    }
    *at++ = 0;
    put16(&at, DNS_A);
    put16(&at, CLASS_IN);
    *at++ = 0; /* how much we take */
    put16(&at, TYPE_OPT);
    put16(&at, ROOM_UDP);
    put32(&at, 0);
    put16(&at, 0);
    return (size_t) (at - out);
}

/* --- answers --- */

struct record {
    char name[EGRESS_NAME_MAX + 1];
    uint16_t type;
    uint16_t class;
    uint32_t ttl_s;
    size_t data; /* where it is */
    size_t len;
};

static bool get_record(const uint8_t *data, size_t size, size_t *at, struct record *ret)
{
    if (!get_name(data, size, at, ret->name) || *at + FIXED > size)
        return false;
    ret->type = get16(data + *at);
    ret->class = get16(data + *at + 2);
    ret->ttl_s = get32(data + *at + 4);
    ret->len = get16(data + *at + 8);
    ret->data = *at + FIXED;
    if (ret->ttl_s > INT32_MAX)
        ret->ttl_s = 0;
    if (ret->data + ret->len > size)
        return false;
    *at = ret->data + ret->len;
    return true;
}

struct answers {
    const uint8_t *data;
    size_t size;
    size_t first; /* where they begin */
    unsigned count;
};

/* The name that `name` is another one for; false: there is none. */
static bool follow(const struct answers *a, char name[EGRESS_NAME_MAX + 1], uint32_t *ttl_s)
{
    size_t at = a->first;
    struct record r;

    for (unsigned i = 0; i < a->count && get_record(a->data, a->size, &at, &r); i++) {
        size_t target = r.data;
        char to[EGRESS_NAME_MAX + 1];

        if (r.type != TYPE_CNAME || r.class != CLASS_IN || strcmp(r.name, name) != 0)
            continue;
        if (!get_name(a->data, r.data + r.len, &target, to) || to[0] == '\0')
            return false;
        memcpy(name, to, sizeof(to));
        *ttl_s = MIN_OF(*ttl_s, r.ttl_s);
        return true;
    }
    return false;
}

/* Each once: what is in the set cannot be replaced twice. */
static void take_address(uint32_t address, struct dns_addresses *ret)
{
    for (size_t i = 0; i < ret->count; i++)
        if (ret->list[i] == address)
            return;
    ret->list[ret->count++] = address;
}

static void take_addresses(const struct answers *a, const char *name, struct dns_addresses *ret)
{
    size_t at = a->first;
    struct record r;

    for (unsigned i = 0;
         i < a->count && ret->count < DNS_ADDRESSES_MAX && get_record(a->data, a->size, &at, &r);
         i++) {
        if (r.type != DNS_A || r.class != CLASS_IN || r.len != 4 || strcmp(r.name, name) != 0)
            continue;
        take_address(get32(a->data + r.data), ret);
        ret->ttl_s = MIN_OF(ret->ttl_s, r.ttl_s);
    }
}

bool dns_read_answer(const uint8_t *data, size_t len, const struct dns_question *q, uint16_t id,
                     struct dns_addresses *ret)
{
    char name[EGRESS_NAME_MAX + 1];
    struct answers a = {.data = data, .size = len, .first = HEAD};
    uint16_t flags;

    *ret = (struct dns_addresses){.ttl_s = INT32_MAX};
    if (len < HEAD || get16(data) != id)
        return false;
    flags = get16(data + 2);
    if ((flags & (IS_ANSWER | OPCODE)) != IS_ANSWER || get16(data + 4) != 1 ||
        !get_name(data, len, &a.first, name) || a.first + 4 > len || strcmp(name, q->name) != 0 ||
        get16(data + a.first) != DNS_A || get16(data + a.first + 2) != CLASS_IN)
        return false;
    a.first += 4;
    a.count = MIN_OF(get16(data + 6), RECORDS_MAX);
    ret->code = (enum dns_code)(flags & CODE);
    for (unsigned i = 0; ret->code == DNS_OK && i < ALIASES_MAX && follow(&a, name, &ret->ttl_s);
         i++)
        ;
    if (ret->code == DNS_OK)
        take_addresses(&a, name, ret);
    if (ret->count == 0 && (flags & IS_CUT) != 0)
        ret->code = DNS_FAILED; /* what there is did not fit */
    return true;
}
