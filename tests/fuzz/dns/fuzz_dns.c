/* Any bytes as a question of a box, and as what another server answers to one. What is answered keeps to the question, fits,
 * and is read back the same; a question that is passed on is one that we would read. */
#include <assert.h>
#include <string.h>

#include "base/compiler.h"
#include "helper/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name)
{
    size_t len = strlen(name);

    assert(len <= EGRESS_NAME_MAX);
    for (size_t i = 0; i < len; i++)
        assert(strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.", name[i]) != NULL);
}

static void check_answer(const struct dns_question *q, const struct dns_addresses *found)
{
    uint8_t text[DNS_MESSAGE_MAX];
    struct dns_question again;
    enum dns_code code;
    size_t count = found->count;
    size_t len = dns_write_answer(q, DNS_OK, found->list, &count, found->ttl_s, text);

    assert(len <= sizeof(text) && count <= found->count);
    assert(!dns_read_question(text, len, &again, &code)); /* it is no question */
    if (q->name[0] != '\0' && q->type == DNS_A && q->wire_len > 0) {
        struct dns_addresses back;

        assert(dns_read_answer(text, len, q, q->id, &back));
        assert(back.code == DNS_OK && back.count == count);
        assert(memcmp(back.list, found->list, count * sizeof(back.list[0])) == 0);
    }
}

static void check_question(const uint8_t *data, size_t size)
{
    struct dns_addresses found = {.count = DNS_ADDRESSES_MAX, .ttl_s = 60};
    uint8_t text[DNS_MESSAGE_MAX];
    struct dns_question q;
    struct dns_question again;
    enum dns_code code;
    size_t len;

    if (!dns_read_question(data, size, &q, &code))
        return;
    check_name(q.name);
    if (code != DNS_OK)
        return;
    for (uint32_t i = 0; i < DNS_ADDRESSES_MAX; i++)
        found.list[i] = i + 1; /* each once: others are left out */
    check_answer(&q, &found);
    if (q.name[0] == '\0')
        return;
    len = dns_write_question(&q, 4711, text);
    assert(len <= sizeof(text));
    assert(dns_read_question(text, len, &again, &code) && code == DNS_OK);
    assert(again.id == 4711 && again.type == DNS_A && strcmp(again.name, q.name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct dns_question asked = {.id = 1,
                                              .type = DNS_A,
                                              .name = "good.test",
                                              .wire = "\4good\4test\0\0\1\0\1",
                                              .wire_len = 15};
    struct dns_addresses found;

    if (size > DNS_REPLY_MAX)
        return 0;
    check_question(data, size);
    if (dns_read_answer(data, size, &asked, 1, &found)) {
        assert(found.count <= DNS_ADDRESSES_MAX && found.ttl_s <= INT32_MAX);
        check_answer(&asked, &found);
    }
    return 0;
}
