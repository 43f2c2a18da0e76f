/* record.c - box.json: what must be known of a box when the daemon's database is lost. Numbers that
 * use all 64 bits are hex texts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

void oci_record_print(const struct oci_record *r, struct buf *out)
{
    const struct backend_labels *l = &r->box.labels;
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_u64(&o, "version", 1);
    json_put_str(&o, "instance", l->instance);
    json_put_hex64(&o, "box_id", l->box_id);
    json_put_str(&o, "profile", l->profile);
    json_put_hex64(&o, "spec_hash", l->spec_hash);
    json_put_str(&o, "sandbox_id", l->sandbox_id);
    json_put_str(&o, "user", l->user);
    json_put_str(&o, "thread", l->thread);
    json_put_hex64(&o, "generation", l->generation);
    json_put_hex64(&o, "principal", l->principal);
    json_put_str(&o, "url", r->box.url);
    json_put_str(&o, "token", r->box.token);
    json_put_u64(&o, "id_base", r->id_base);
    json_put_str(&o, "runtime", r->runtime);
    if (r->snapshot != 0)
        json_put_hex64(&o, "snapshot", r->snapshot);
    if (r->is_durable)
        json_put_bool(&o, "durable", true);
    json_end(&o);
    json_out_finish(&o, out);
}

static bool decode(const struct json *root, struct oci_record *ret)
{
    struct backend_labels *l = &ret->box.labels;
    char hex[17];

    memset(ret, 0, sizeof(*ret));
    if (!json_take_str(root, "instance", l->instance, sizeof(l->instance)) ||
        !json_take_hex64(root, "box_id", &l->box_id) ||
        !json_take_str(root, "profile", l->profile, sizeof(l->profile)) ||
        !json_take_hex64(root, "spec_hash", &l->spec_hash) ||
        !json_take_str(root, "sandbox_id", l->sandbox_id, sizeof(l->sandbox_id)) ||
        !json_take_str(root, "user", l->user, sizeof(l->user)) ||
        !json_take_str(root, "thread", l->thread, sizeof(l->thread)) ||
        !json_take_hex64(root, "generation", &l->generation) ||
        !json_take_hex64(root, "principal", &l->principal) ||
        !json_take_str(root, "url", ret->box.url, sizeof(ret->box.url)) ||
        !json_take_str(root, "token", ret->box.token, sizeof(ret->box.token)) ||
        !json_take_str(root, "runtime", ret->runtime, sizeof(ret->runtime)) ||
        json_get(root, "id_base") == NULL || !json_u64(json_get(root, "id_base"), &ret->id_base))
        return false;
    if (json_get(root, "snapshot") != NULL && !json_take_hex64(root, "snapshot", &ret->snapshot))
        return false;
    ret->is_durable = json_get(root, "durable") != NULL && json_bool(json_get(root, "durable"));
    str_hex64(hex, l->box_id);
    str_copy_cut(ret->box.ref, sizeof(ret->box.ref), hex);
    return true;
}

int oci_record_read(int dir_fd, struct oci_record *ret, struct err *err)
{
    AUTO_CLOSE int fd = openat(dir_fd, "box.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char text[OCI_RECORD_MAX];
    struct json_doc *doc;
    bool is_good;
    ssize_t len;

    if (fd < 0)
        return err_sys(err, errno == ENOENT ? SP_NOT_FOUND : SP_IO, errno, "box.json");
    len = read(fd, text, sizeof(text));
    if (len < 0)
        return err_sys(err, SP_IO, errno, "box.json");
    doc = json_parse(text, (size_t) len, sizeof(text), err);
    is_good = doc != NULL && decode(json_root(doc), ret);
    (void) json_doc_free(doc);
    return is_good ? SP_OK : err_set(err, SP_NOT_FOUND, "box.json is malformed");
}

int oci_record_write(int dir_fd, const struct oci_record *r, struct err *err)
{
    static const char temporary[] = "box.json.new";
    struct buf text;
    int sys;
    int fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return err_sys(err, SP_IO, errno, "box.json");
    buf_init(&text, OCI_RECORD_MAX);
    oci_record_print(r, &text);
    sys = buf_failed(&text) ? EFBIG : file_write_all(fd, buf_str(&text), text.len);
    buf_fini(&text);
    if (close(fd) != 0 || sys != 0)
        return err_sys(err, SP_IO, sys != 0 ? sys : errno, "box.json");
    if (renameat(dir_fd, temporary, dir_fd, "box.json") != 0)
        return err_sys(err, SP_IO, errno, "box.json");
    return SP_OK;
}
