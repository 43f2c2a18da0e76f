/* fuzz_http.c - feeds bytes to the HTTP parser. The first two bytes seed how the rest is split and
 * when the body is paused. Checked besides crashes: requests are served one after the other as in a
 * connection, limits hold, and the splits must not change the result. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/rand.h"
#include "http/parse.h"
#include "http/router.h"
#include "http/target.h"

enum { HEAD_MAX = 2048, BODY_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    struct parse parse;
    struct rand *random; /* NULL: all at once, never paused */
    uint64_t digest;     /* of everything parsed, in order */
    uint64_t complete;   /* the same up to the last whole request */
    uint64_t body;       /* bytes of this one */
    bool is_bad;
    bool is_uncertain; /* refused by a rule that checks what has arrived so far */
};

static void handle(struct http_exchange *ex)
{
    (void) ex;
}

static const struct http_route routes[] = {
    {HTTP_METHOD_GET, "/healthz", handle, 0, 0, ""},
    {HTTP_METHOD_POST, "/v1/sandboxes/{id}/release", handle, 0, 0, ""},
    {HTTP_METHOD_GET, "/v1/{a}/{b}/{c}/{d}", handle, 0, 0, ""},
    {HTTP_METHOD_GET, NULL, NULL, 0, 0, NULL},
};

static void digest(struct run *r, const void *data, size_t len)
{
    r->digest = hash_u64(r->digest ^ hash_bytes(data, len));
}

static bool on_body(struct parse *p, const char *data, size_t len)
{
    struct run *r = container_of(p, struct run, parse);

    assert(len > 0);
    r->body += len;
    assert(r->body <= BODY_MAX);
    for (size_t i = 0; i < len; i++) /* byte by byte: pieces are not part of the meaning */
        digest(r, data + i, 1);
    return r->random == NULL || rand_below(r->random, 3) > 0;
}

static void understand(struct run *r)
{
    const struct parse *p = &r->parse;
    const char *target = parse_text(p, p->target);
    struct router_match match;
    char value[64];

    assert(p->header_count <= PARSE_HEADERS_MAX);
    digest(r, target, strlen(target));
    digest(r, parse_text(p, p->path), strlen(parse_text(p, p->path)));
    for (unsigned i = 0; i < p->header_count; i++) {
        const char *name = parse_text(p, p->headers[i].name);

        assert(parse_header(p, name) != NULL && strpbrk(name, "\r\n :") == NULL);
        assert(strpbrk(parse_text(p, p->headers[i].value), "\r\n") == NULL);
        digest(r, name, strlen(name));
    }
    router_find(routes, "thread:", p->method, target, &match);
    for (unsigned i = 0; i < match.param_count; i++)
        assert(strlen(match.params[i].value) > 0 && match.params[i].end <= strlen(target) &&
               strchr("/?", target[match.params[i].end]) != NULL);
    if (target_query(target, "alive", value, sizeof(value)))
        digest(r, value, strlen(value));
}

/* True if the connection would continue after it. */
static bool step(struct run *r, const char *data, size_t len, size_t *used)
{
    struct parse *p = &r->parse;
    size_t took;
    enum parse_result result = parse_feed(p, data, len, &took);

    assert(took <= len);
    *used += took;
    switch (result) {
    case PARSE_MORE:
        assert(took == len);
        return true;
    case PARSE_PAUSED:
        return true;
    case PARSE_HEAD:
        understand(r);
        if (p->content_length > BODY_MAX)
            return false;
        p->body_max = BODY_MAX;
        p->on_body = on_body;
        if (p->has_body)
            return true;
        break;
    case PARSE_DONE:
        break;
    case PARSE_BAD:
        assert(p->error < 0 && p->reason != NULL);
        r->is_bad = true;
        r->is_uncertain = strstr(p->reason, "more framing than body") != NULL;
        return false;
    case PARSE_RESULT_COUNT:
        abort();
    }
    r->body = 0;
    digest(r, "end", 3);
    r->complete = r->digest;
    parse_start(p, HEAD_MAX);
    return true;
}

static struct run run_over(const char *data, size_t len, struct rand *random)
{
    struct run r = {.random = random};
    size_t used = 0;

    parse_init(&r.parse);
    parse_start(&r.parse, HEAD_MAX);
    while (used < len || r.parse.is_paused) {
        size_t n = len - used;

        if (random != NULL && n > 1)
            n = 1 + rand_below(random, rand_below(random, 2) == 0 ? 4 : n);
        n = MIN_OF(n, len - used);
        if (!step(&r, data + used, n, &used))
            break;
    }
    parse_fini(&r.parse);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rand random;
    const char *text = (const char *) data + 2;
    struct run cut;
    struct run whole;

    if (size < 2)
        return 0;
    rand_seed(&random, (uint64_t) data[0] << 8 | data[1]);
    cut = run_over(text, size - 2, &random);
    whole = run_over(text, size - 2, NULL);
    if (!cut.is_uncertain && !whole.is_uncertain &&
        (cut.complete != whole.complete || cut.is_bad != whole.is_bad))
        abort(); /* the splits changed the result; which of two errors is reported first may
                  * differ */
    return 0;
}
