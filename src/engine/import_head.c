/* import_head.c - what the head of a file says of the snapshot in it, checked before anything is made. */
#include <string.h>

#include "base/bundle.h"
#include "base/str.h"
#include "engine/internal.h"
#include "engine/snapshot_moves.h"

#define FILE_BYTES ((uint64_t) 4096) /* that an empty file takes */

static int take_name(struct snapshot *s, const char *name, struct err *err)
{
    if (!str_copy(s->name, sizeof(s->name), name) ||
        !str_is_name(s->name, SNAPSHOT_NAME_MAX, "_.-"))
        return err_set(err, SP_INVALID_FIELD, "the name of the snapshot is not a name");
    return SP_OK;
}

static int take_about(const struct json *about, const struct engine_import_options *w,
                      struct snapshot *s, struct err *err)
{
    const struct json *metadata = json_get(about, "metadata");
    const char *profile = w->profile != NULL ? w->profile : json_str(json_get(about, "profile"));
    const char *name = w->name != NULL ? w->name : json_str(json_get(about, "name"));
    struct buf text;
    int rc = SP_OK;

    if (name != NULL && !str_is_empty(name))
        rc = take_name(s, name, err);
    if (rc == SP_OK && (profile == NULL || !str_copy(s->profile, sizeof(s->profile), profile)))
        rc = err_set(err, SP_INVALID_FIELD, "the file names no profile: name one");
    if (rc != SP_OK || metadata == NULL)
        return rc;
    buf_init(&text, SNAPSHOT_METADATA_MAX);
    json_print(metadata, &text);
    if (!json_is_obj(metadata) || buf_failed(&text) ||
        !str_copy(s->metadata, sizeof(s->metadata), buf_str(&text)))
        rc = err_set(err, SP_INVALID_FIELD, "the metadata in the file is malformed");
    buf_fini(&text);
    return rc;
}

static int check_backend(struct engine *e, struct engine_import *x, const struct json *about,
                         struct err *err)
{
    const char *name = x->request.snapshot.profile;
    const char *from = json_str(json_get(about, "backend"));
    int index = pool_profile_index(e->pool, name);
    const struct backend_ops *ops;

    if (index < 0 || config_find_profile(e->config->config, name) == NULL)
        return err_set(err, SP_INVALID_FIELD, "there is no profile '%.64s': name another one",
                       name);
    x->move.backend = (unsigned) (profiles_backend(e, (unsigned) index) - e->backends);
    ops = e->backends[x->move.backend].ops;
    if (ops->import == NULL)
        return err_set(err, SP_UNSUPPORTED, "backend %s of profile '%.64s' takes no snapshots",
                       ops->name, name);
    if (from == NULL || strcmp(from, ops->name) != 0)
        return err_set(err, SP_SPEC_CONFLICT,
                       "the snapshot is of backend '%.32s', and profile '%.64s' has backend %s",
                       from != NULL ? from : "", name, ops->name);
    return SP_OK;
}

/* What it may take at the most counts before it is there. */
static uint64_t count(const struct engine *e, uint64_t bytes, const struct json *said)
{
    uint64_t max = e->config->config->snapshots.import_max;
    uint64_t files = 0;

    if (said == NULL || !json_u64(said, &files))
        files = 0;
    bytes = MIN_OF(bytes, max);
    return bytes + MIN_OF(files, (max - bytes) / FILE_BYTES) * FILE_BYTES;
}

int import_check_head(struct engine *e, struct engine_import *x,
                      const struct engine_import_options *w, struct err *err)
{
    struct json_doc *doc = json_parse(w->head, w->head_len, BUNDLE_HEAD_MAX, err);
    const struct json *head = doc != NULL ? json_root(doc) : NULL;
    const char *format = json_str(json_get(head, "format"));
    const struct json *about = json_get(head, "snapshot");
    uint64_t version = 0;
    uint64_t bytes = 0;
    int rc = SP_OK;

    if (format == NULL || strcmp(format, BUNDLE_FORMAT) != 0 || !json_is_obj(about) ||
        !json_u64(json_get(head, "version"), &version) ||
        !json_u64(json_get(head, "bytes"), &bytes))
        rc = err_set(err, SP_INVALID_FIELD, "this is no snapshot that was exported");
    else if (version != BUNDLE_VERSION)
        rc = err_set(err, SP_INVALID_FIELD, "the file has version %llu, this daemon reads %d",
                     (unsigned long long) version, BUNDLE_VERSION);
    if (rc == SP_OK)
        rc = take_about(about, w, &x->request.snapshot, err);
    if (rc == SP_OK)
        rc = check_backend(e, x, about, err);
    x->request.bytes = bytes;
    if (rc == SP_OK)
        x->counted = count(e, bytes, json_get(head, "files"));
    (void) json_doc_free(doc);
    return rc;
}
