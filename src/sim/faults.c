/* faults.c - what goes wrong on purpose, so that tests can see what the daemon makes of it. */
#include "sim/machine.h"

enum { BODY_MAX = 1024, FAULTS_MAX = 1000000 };

bool machine_take_fault(unsigned *left)
{
    if (*left == 0)
        return false;
    (*left)--;
    return true;
}

void machine_handle_faults(struct http_exchange *ex)
{
    struct machine *m = http_server_ctx(ex);
    struct err err;
    size_t len;
    const char *body = http_body(ex, &len);
    struct json_doc *doc = json_parse(body, len, BODY_MAX, &err);
    uint64_t lists = m->hide_lists;
    uint64_t binds = m->fail_binds;

    if (doc == NULL ||
        json_field_u64(json_root(doc), "hide_lists", 0, FAULTS_MAX, &lists, &err) != SP_OK ||
        json_field_u64(json_root(doc), "fail_binds", 0, FAULTS_MAX, &binds, &err) != SP_OK) {
        http_reply_err(ex, &err);
    } else {
        m->hide_lists = (unsigned) lists;
        m->fail_binds = (unsigned) binds;
        http_reply(ex, 204, NULL, NULL, 0);
    }
    (void) json_doc_free(doc);
}
