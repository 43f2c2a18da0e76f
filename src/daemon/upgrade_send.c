/* upgrade_send.c - the packets of the running daemon. */
#include "daemon/upgrade_send.h"

#include <stdlib.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/str.h"
#include "daemon/upgrade_connections.h"
#include "sandpool/version.h"
#include "store/store.h"

enum { SEND_WAIT_MS = 5000 };

static int send_text(int fd, enum packet_kind kind, struct json_out *o, const int *fds,
                     unsigned fd_count, struct err *err)
{
    struct buf text;
    int r;

    buf_init(&text, PACKET_DATA_MAX);
    json_out_finish(o, &text);
    r = buf_failed(&text) ? err_set(err, SP_TOO_BIG, "a packet that is too long")
                          : packet_send(fd, kind, buf_str(&text), text.len, fds, fd_count, err);
    buf_fini(&text);
    return r;
}

static int send_connection(int fd, const struct cargo_conn *c, struct err *err)
{
    struct json_out o;
    int r;

    FAULT_POINT("takeover.old_giving");
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "server", c->server);
    json_put_u64(&o, "bytes", c->bytes.len);
    json_end(&o);
    r = send_text(fd, PACKET_CONNECTION, &o, &c->fd, 1, err);
    for (size_t at = 0; at < c->bytes.len && r == SP_OK; at += PACKET_DATA_MAX)
        r = packet_send(fd, PACKET_BYTES, c->bytes.data + at,
                        MIN_OF(c->bytes.len - at, (size_t) PACKET_DATA_MAX), NULL, 0, err);
    return r;
}

int give_all(int fd, const struct list *cargo, const struct takeover *before, int lock_fd,
             struct err *err)
{
    int r = SP_OK;

    packet_set_patience(fd, SEND_WAIT_MS);
    for (const struct list_node *n = list_first(cargo); n != NULL && r == SP_OK;
         n = list_next(cargo, n))
        r = send_connection(fd, container_of(n, struct cargo_conn, link), err);
    for (unsigned i = 0; before != NULL && i < before->rest_count && r == SP_OK; i++)
        r = packet_send(fd, PACKET_REST, "", 0, &before->rests[i], 1, err);
    if (r == SP_OK)
        r = packet_send(fd, PACKET_YOURS, "", 0, &lock_fd, 1, err);
    packet_set_patience(fd, 0);
    return r;
}

int give_offer(int fd, const struct listeners *l, struct err *err)
{
    int fds[LISTENERS_MAX];
    unsigned count = 0;
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_u64(&o, "protocol", PACKET_PROTOCOL);
    json_put_str(&o, "version", SANDPOOL_VERSION);
    json_put_u64(&o, "schema", STORE_SCHEMA_VERSION);
    json_put_str(&o, "NOTIFY_SOCKET", getenv("NOTIFY_SOCKET"));
    json_put_str(&o, "WATCHDOG_USEC", getenv("WATCHDOG_USEC"));
    json_begin_arr(&o, "listeners");
    for (unsigned i = 0; i < l->count; i++) {
        if (l->items[i].fd < 0)
            continue;
        json_begin_obj(&o, NULL);
        json_put_str(&o, "name", l->items[i].name);
        json_put_bool(&o, "foreign", l->items[i].is_foreign);
        if (!str_is_empty(l->items[i].path)) {
            json_put_u64(&o, "dev", l->items[i].dev);
            json_put_u64(&o, "ino", l->items[i].ino);
        }
        json_end(&o);
        fds[count] = l->items[i].fd;
        count++;
    }
    json_end(&o);
    json_end(&o);
    return send_text(fd, PACKET_OFFER, &o, fds, count, err);
}

int give_check_hello(const struct packet *b, bool *ret_takes_rests, struct err *err)
{
    struct json_doc *doc = json_parse(b->data, b->len, PACKET_DATA_MAX, err);
    uint64_t protocol = 0;
    uint64_t schema = 0;
    int r;

    if (doc == NULL)
        return err->code;
    r = json_field_u64(json_root(doc), "protocol", 0, UINT32_MAX, &protocol, err);
    if (r == SP_OK)
        r = json_field_u64(json_root(doc), "schema", 0, UINT32_MAX, &schema, err);
    if (r == SP_OK)
        r = json_field_bool(json_root(doc), "rests", ret_takes_rests, err);
    if (r == SP_OK && protocol != PACKET_PROTOCOL)
        r = err_set(err, SP_PROTOCOL, "it uses another protocol");
    if (r == SP_OK && schema < STORE_SCHEMA_VERSION)
        r = err_set(err, SP_CONFIG,
                    "the database has schema version %d, the successor knows up to %llu",
                    STORE_SCHEMA_VERSION, (unsigned long long) schema);
    (void) json_doc_free(doc);
    return r;
}
