/* dns.h - messages of DNS, as far as a resolver needs them that answers addresses only. Nothing here has a state; all
 * that comes in is hostile. */
#ifndef HELPER_DNS_H
#define HELPER_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/egress.h"

enum {
    DNS_MESSAGE_MAX = 512,  /* of ours; no more is needed */
    DNS_REPLY_MAX = 4096,   /* that we read of another server's */
    DNS_ADDRESSES_MAX = 16, /* of one name */
    DNS_QUESTION_MAX = 255 + 4,
    DNS_PORT = 53
};

enum dns_code {
    DNS_OK = 0,
    DNS_MALFORMED = 1,
    DNS_FAILED = 2,
    DNS_NO_NAME = 3,
    DNS_NOT_DONE = 4,
    DNS_REFUSED = 5
};

enum dns_type { DNS_A = 1 };

struct dns_question {
    uint16_t id;
    uint16_t flags;
    uint16_t type;
    char name[EGRESS_NAME_MAX + 1]; /* lower case; "": one that no host can have */
    uint8_t wire[DNS_QUESTION_MAX]; /* as it came */
    size_t wire_len;
};

struct dns_addresses {
    uint32_t list[DNS_ADDRESSES_MAX]; /* in the machine's own byte order */
    size_t count;
    uint32_t ttl_s; /* the smallest on the way there */
    enum dns_code code;
};

/* A question that came in. False: no answer is due. *ret_code is not DNS_OK when the answer is an error in any case. */
bool dns_read_question(const uint8_t *data, size_t len, struct dns_question *ret,
                       enum dns_code *ret_code);
/* The answer to it: `count` addresses, or none; only as many as fit are taken, and *count says how many. Returns its
 * length. */
size_t dns_write_answer(const struct dns_question *q, enum dns_code code, const uint32_t *list,
                        size_t *count, uint32_t ttl_s, uint8_t out[DNS_MESSAGE_MAX]);

/* The question for the addresses of the same name, with another id, for another server. Returns its length. */
size_t dns_write_question(const struct dns_question *q, uint16_t id, uint8_t out[DNS_MESSAGE_MAX]);
/* What that server answered. False: it is not the answer to this question. */
bool dns_read_answer(const uint8_t *data, size_t len, const struct dns_question *q, uint16_t id,
                     struct dns_addresses *ret);

#endif
