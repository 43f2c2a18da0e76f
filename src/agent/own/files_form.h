/* files_form.h - what the routes below /v1/agent/files share: the query of a request, an entry, an error. */
#ifndef AGENT_OWN_FILES_FORM_H
#define AGENT_OWN_FILES_FORM_H

#include <sys/stat.h>

#include "agent/core/agent.h"
#include "agent/file/stream.h"
#include "base/json.h"

enum { FILES_HEADER_MAX = 256, FILES_LIST_MAX = 100000, FILES_LIST_DEFAULT = 10000 };

/* A request, as the helper gets it. What the agent owns outlives it. */
struct files_request {
    struct http_exchange *ex; /* for http_body() in the helper */
    const struct identity *user;
    const struct identity *root;
    const struct identity *as; /* one of them */
    const char *base;
    char path[FILE_PATH_MAX]; /* absolute */
    char to[FILE_PATH_MAX];   /* of a move or a copy */
    char range[FILES_HEADER_MAX];
    char only_if[FILES_HEADER_MAX];
    char unless[FILES_HEADER_MAX];
    bool is_head;
    bool is_recursive;
    bool want_parents;
    bool want_overwrite;
    bool want_follow;
    bool is_ndjson;
    bool has_mode;
    bool has_owner;
    mode_t mode;
    uid_t uid;
    gid_t gid;
    unsigned depth;
    uint64_t limit;
    struct err err; /* of the body */
};

/* With `path` and `user` of the query, from malloc(). NULL: an error was answered. */
struct files_request *files_request_new(struct http_exchange *ex);
/* The same for a request whose fields are in its body, which files_read_body() reads in the helper. */
struct files_request *files_request_new_body(struct http_exchange *ex);
/* For a directory that is read: its path without parts that mean nothing ("a/./b//.": "a/b"), because the paths of what is
 * in it begin with it. ".." stays: a link may come before it. */
void files_shorten_path(struct files_request *r);
/* A switch of the query, which keeps its value when it is absent. False: it is malformed; answered, and the request
 * is freed. */
MUST_CHECK bool files_query_bool(struct files_request *r, const char *name, bool *ret);
MUST_CHECK bool files_query_u64(struct files_request *r, const char *name, uint64_t max,
                                uint64_t *ret);
/* "0644". */
MUST_CHECK bool files_query_mode(struct files_request *r);
/* "1000:1000". */
MUST_CHECK bool files_query_owner(struct files_request *r);

/* --- in the helper --- */
const struct identity *files_choose(void *request);
/* In choose(): parses the body (r->err) and the fields "user" and `path_field`, which is required. */
struct json_doc *files_read_body(struct files_request *r, const char *path_field);
/* A required path of the body, made absolute. */
MUST_CHECK int files_field_path(struct files_request *r, const struct json *body, const char *field,
                                char *dst);
MUST_CHECK int files_field_mode(struct files_request *r, const struct json *body);

/* file, directory, symlink or other. */
const char *files_type_name(mode_t mode);
void files_put_entry(struct json_out *o, int dir, const char *name, const char *path,
                     const struct stat *st);
/* The entry of `path` as the whole answer, or an error. */
void files_send_entry(struct file_wire *wire, const char *operation, const char *path,
                      bool want_follow, uint64_t skipped);
void files_print_error(struct buf *out, const struct file_error *e);
/* `size`: of the file, for a range that it does not have. */
void files_send_error(struct file_wire *wire, const struct file_error *e, uint64_t size);
void files_send_sys(struct file_wire *wire, const char *operation, const char *path, int sys);
/* An error of the request. */
void files_send_err(struct file_wire *wire, const struct err *err);
void files_send_json(struct file_wire *wire, struct json_out *o);

extern const struct file_dialect files_dialect;

#endif
