/* bench.c - the `remote` backend beside a provisioner that the test controls. */
#include "tests/unit/remote/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/remote/remote.h"
#include "base/rand.h"
#include "base/str.h"

enum { SLOW_SESSIONS = 7, ANSWER_MAX = 4 * 1024 * 1024 };

static struct json_doc *send_control(struct rig *rig, const char *text)
{
    struct bench *b = container_of(rig, struct bench, rig);
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
    rig->pending++;
    httpc_start(rig->http, &r, rig_soon(rig), rig_done);
    rig_wait(rig);
    assert_int_equal(r.op.result, SP_OK);
    assert_int_equal(r.status, 200);
    doc = json_parse(buf_str(&r.response), r.response.len, ANSWER_MAX, NULL);
    assert_non_null(doc);
    httpc_request_fini(&r);
    return doc;
}

struct json_doc *bench_control(struct rig *rig, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return send_control(rig, text);
}

void bench_set(struct rig *rig, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void) json_doc_free(send_control(rig, text));
}

bool bench_has(struct rig *rig, const char *name)
{
    struct json_doc *doc = send_control(rig, "{}");
    bool has = json_get(json_get(json_root(doc), "boxes"), name) != NULL;

    (void) json_doc_free(doc);
    return has;
}

uint64_t bench_made(struct rig *rig, const char *name)
{
    struct json_doc *doc = send_control(rig, "{}");
    uint64_t count = 0;
    bool is_known = json_u64(json_get(json_get(json_root(doc), "made"), name), &count);

    (void) json_doc_free(doc);
    return is_known ? count : 0;
}

size_t bench_asked(struct rig *rig, const char *what, const char *name)
{
    struct json_doc *doc = send_control(rig, "{}");
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

const char *bench_name(const struct backend_box *box)
{
    static char name[BACKEND_REF_MAX + 1];

    assert_true(str_copy_n(name, sizeof(name), box->ref, strcspn(box->ref, "@")));
    return name;
}

void bench_start_special(struct rig *rig, struct backend_create *r, const char *sandbox_id,
                         const struct backend_extras *extras, uint64_t deadline_ns)
{
    memset(r, 0, sizeof(*r));
    r->profile = &rig->profile;
    r->extras = extras;
    rand_secure(&r->labels.box_id, sizeof(r->labels.box_id));
    str_copy_cut(r->labels.profile, sizeof(r->labels.profile), rig->profile.name);
    str_copy_cut(r->labels.sandbox_id, sizeof(r->labels.sandbox_id), sandbox_id);
    str_copy_cut(r->labels.user, sizeof(r->labels.user), "ann & co");
    str_copy_cut(r->labels.thread, sizeof(r->labels.thread), "thread-1");
    rig->pending++;
    rig->is_calling = true;
    rig->backend->ops->create(rig->backend, r, deadline_ns, rig_done);
    rig->is_calling = false;
}

void bench_verdict(struct rig *rig, const struct backend_box *box, int want)
{
    enum backend_verdict verdict;

    assert_int_equal(rig_check(rig, box, &verdict), SP_OK);
    assert_int_equal(verdict, want);
}

void bench_create(struct rig *rig, struct backend_create *r)
{
    if (rig_create(rig, r, &rig->profile) != SP_OK)
        fail_msg("%s", r->op.err.msg);
}

void bench_special(struct rig *rig, struct backend_create *r, const char *sandbox_id)
{
    bench_start_special(rig, r, sandbox_id, NULL, rig_soon(rig));
    rig_wait(rig);
    if (r->op.result != SP_OK)
        fail_msg("%s", r->op.err.msg);
}

void bench_destroy(struct rig *rig, const struct backend_create *r)
{
    assert_int_equal(rig_destroy(rig, rig->backend, &r->labels), SP_OK);
}

size_t bench_count(struct rig *rig)
{
    bool is_listed;

    return rig_list(rig, rig->backend, 0, NULL, &is_listed);
}

void bench_reopen(struct rig *rig)
{
    rig_close_backend(rig, rig->backend);
    rig->backend = rig_open_other(rig, rig_instance());
}

int bench_set_up(void **state)
{
    const char *url = getenv("SANDPOOL_TEST_PROVISIONER");
    struct bench *b = test_calloc(1, sizeof(*b));
    struct rig *rig = &b->rig;

    assert_non_null(url);
    str_copy_cut(b->url, sizeof(b->url), url);
    assert_int_equal(config_load(NULL, &b->config, NULL), SP_OK);
    rig->ops = &remote_ops;
    rig->config = b->config;
    rig->profile = *config_find_profile(b->config, "default");
    str_copy_cut(rig->profile.backend, sizeof(rig->profile.backend), "remote");
    (void) snprintf(rig->profile.remote.provisioner_url,
                    sizeof(rig->profile.remote.provisioner_url), "%s/", url);
    str_copy_cut(rig->profile.remote.provisioner_api_key,
                 sizeof(rig->profile.remote.provisioner_api_key), BENCH_KEY);
    rig->profile.remote.create_timeout_s = 2;
    rig->profile.remote.get_timeout_s = 2;
    rig->profile.remote.list_timeout_s = 2;
    rig->profile.remote.destroy_timeout_s = 2;
    rig->slow = rig->profile;
    rig->slow.remote.max_shell_sessions = SLOW_SESSIONS;
    rig_open(rig);
    bench_set(rig, "{'reset': true}");
    *state = rig;
    return 0;
}

int bench_tear_down(void **state)
{
    struct bench *b = container_of((struct rig *) *state, struct bench, rig);
    struct json_doc *doc = send_control(&b->rig, "{}");

    if (json_len(json_get(json_root(doc), "boxes")) > 0)
        fail_msg("boxes are left with the provisioner");
    (void) json_doc_free(doc);
    rig_close(&b->rig);
    b->config = config_free(b->config);
    test_free(b);
    return 0;
}
