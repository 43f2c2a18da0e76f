/* provisioner.c - the `remote` backend beside a provisioner that the test controls. */
#include "tests/unit/remote/provisioner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/remote/remote.h"
#include "base/rand.h"
#include "base/str.h"
#include "tests/lib/unit.h"

enum { SLOW_SESSIONS = 7, ANSWER_MAX = 4 * 1024 * 1024 };

static struct json_doc *send_control(struct fixture *fixture, const char *text)
{
    struct provisioner *b = container_of(fixture, struct provisioner, fixture);
    struct httpc_request r = {.method = "POST", .response_max = ANSWER_MAX};
    char url[160];
    char body[1024];
    struct json_doc *doc;

    (void) snprintf(url, sizeof(url), "%s/control", b->url);
    assert_true(str_copy(body, sizeof(body), text));
    for (char *s = body; *s != '\0'; s++)
        if (*s == '\'')
            *s = '"';
    r.url = url;
    r.body = body;
    r.body_len = strlen(body);
    fixture->pending++;
    httpc_start(fixture->http, &r, fixture_soon(fixture), fixture_done);
    fixture_wait(fixture);
    assert_int_equal(r.op.result, SP_OK);
    assert_int_equal(r.status, 200);
    doc = json_parse(buf_str(&r.response), r.response.len, ANSWER_MAX, NULL);
    assert_non_null(doc);
    httpc_request_fini(&r);
    return doc;
}

struct json_doc *provisioner_control(struct fixture *fixture, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return send_control(fixture, text);
}

void provisioner_set(struct fixture *fixture, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void) json_doc_free(send_control(fixture, text));
}

bool provisioner_has(struct fixture *fixture, const char *name)
{
    struct json_doc *doc = send_control(fixture, "{}");
    bool has = json_get(json_get(json_root(doc), "boxes"), name) != NULL;

    (void) json_doc_free(doc);
    return has;
}

uint64_t provisioner_made(struct fixture *fixture, const char *name)
{
    struct json_doc *doc = send_control(fixture, "{}");
    uint64_t count = 0;
    bool is_known = json_u64(json_get(json_get(json_root(doc), "made"), name), &count);

    (void) json_doc_free(doc);
    return is_known ? count : 0;
}

size_t provisioner_asked(struct fixture *fixture, const char *what, const char *name)
{
    struct json_doc *doc = send_control(fixture, "{}");
    const struct json *asked = json_get(json_root(doc), "asked");
    size_t count = 0;

    for (size_t i = 0; i < json_len(asked); i++) {
        const char *kind = json_str(json_at(json_at(asked, i), 0));
        const char *of = json_str(json_at(json_at(asked, i), 1));

        if (kind != NULL && strcmp(kind, what) == 0 &&
            (name == NULL || (of != NULL && strcmp(of, name) == 0)))
            count++;
    }
    (void) json_doc_free(doc);
    return count;
}

const char *provisioner_name(const struct backend_box *box)
{
    static char name[BACKEND_REF_MAX + 1];

    assert_true(str_copy_n(name, sizeof(name), box->ref, strcspn(box->ref, "@")));
    return name;
}

void provisioner_start_special(struct fixture *fixture, struct backend_create *r,
                               const char *sandbox_id, const struct backend_extras *extras,
                               uint64_t deadline_ns)
{
    memset(r, 0, sizeof(*r));
    r->profile = &fixture->profile;
    r->extras = extras;
    rand_secure(&r->labels.box_id, sizeof(r->labels.box_id));
    str_copy_cut(r->labels.profile, sizeof(r->labels.profile), fixture->profile.name);
    str_copy_cut(r->labels.sandbox_id, sizeof(r->labels.sandbox_id), sandbox_id);
    str_copy_cut(r->labels.user, sizeof(r->labels.user), "ann & co");
    str_copy_cut(r->labels.thread, sizeof(r->labels.thread), "thread-1");
    fixture->pending++;
    fixture->is_calling = true;
    fixture->backend->ops->create(fixture->backend, r, deadline_ns, fixture_done);
    fixture->is_calling = false;
}

void provisioner_verdict(struct fixture *fixture, const struct backend_box *box, int want)
{
    enum backend_verdict verdict;

    assert_int_equal(fixture_check(fixture, box, &verdict), SP_OK);
    assert_int_equal(verdict, want);
}

void provisioner_create(struct fixture *fixture, struct backend_create *r)
{
    if (fixture_create(fixture, r, &fixture->profile) != SP_OK)
        fail_msg("%s", r->op.err.msg);
}

void provisioner_special(struct fixture *fixture, struct backend_create *r, const char *sandbox_id)
{
    provisioner_start_special(fixture, r, sandbox_id, NULL, fixture_soon(fixture));
    fixture_wait(fixture);
    if (r->op.result != SP_OK)
        fail_msg("%s", r->op.err.msg);
}

void provisioner_destroy(struct fixture *fixture, const struct backend_create *r)
{
    assert_int_equal(fixture_destroy(fixture, fixture->backend, &r->labels), SP_OK);
}

size_t provisioner_count(struct fixture *fixture)
{
    bool is_listed;

    return fixture_list(fixture, fixture->backend, 0, NULL, &is_listed);
}

void provisioner_reopen(struct fixture *fixture)
{
    fixture_close_backend(fixture, fixture->backend);
    fixture->backend = fixture_open_other(fixture, fixture_instance());
}

int provisioner_set_up(void **state)
{
    const char *url = getenv("SANDPOOL_TEST_PROVISIONER");
    struct provisioner *b = test_calloc(1, sizeof(*b));
    struct fixture *fixture = &b->fixture;

    assert_non_null(url);
    str_copy_cut(b->url, sizeof(b->url), url);
    assert_int_equal(config_load(NULL, &b->config, NULL), SP_OK);
    fixture->ops = &remote_ops;
    fixture->config = b->config;
    fixture->profile = *config_find_profile(b->config, "default");
    str_copy_cut(fixture->profile.backend, sizeof(fixture->profile.backend), "remote");
    (void) snprintf(fixture->profile.remote.provisioner_url,
                    sizeof(fixture->profile.remote.provisioner_url), "%s/", url);
    str_copy_cut(fixture->profile.remote.provisioner_api_key,
                 sizeof(fixture->profile.remote.provisioner_api_key), PROVISIONER_KEY);
    fixture->profile.remote.create_timeout_s = 2;
    fixture->profile.remote.get_timeout_s = 2;
    fixture->profile.remote.list_timeout_s = 2;
    fixture->profile.remote.destroy_timeout_s = 2;
    fixture->slow = fixture->profile;
    fixture->slow.remote.max_shell_sessions = SLOW_SESSIONS;
    fixture_open(fixture);
    provisioner_set(fixture, "{'reset': true}");
    *state = fixture;
    return 0;
}

int provisioner_tear_down(void **state)
{
    struct provisioner *b = container_of((struct fixture *) *state, struct provisioner, fixture);
    struct json_doc *doc = send_control(&b->fixture, "{}");

    if (json_len(json_get(json_root(doc), "boxes")) > 0)
        fail_msg("boxes are left with the provisioner");
    (void) json_doc_free(doc);
    fixture_close(&b->fixture);
    b->config = config_free(b->config);
    test_free(b);
    return 0;
}
