/* upgrade_successor.c - asks, checks what is offered, says that it can start, takes what comes. A daemon that
 * dies in the middle has left us its sockets: we start with them as after any crash. */
#include "daemon/upgrade_successor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/upgrade_connections.h"
#include "daemon/upgrade_packet.h"
#include "sandpool/version.h"
#include "store/store.h"

enum { OFFER_WAIT_MS = 10000, GIVE_WAIT_MS = 60000, DONE_WAIT_MS = 1000 };

static void drop_rest(struct takeover *t, unsigned i)
{
    (void) close(t->rests[i]); /* it has gone, or is to end */
    t->rest_count--;
    memmove(t->rests + i, t->rests + i + 1, (t->rest_count - i) * sizeof(t->rests[0]));
}

/* Takes it over. Those that have gone make room, and then the oldest. */
static void add_rest(struct takeover *t, int fd)
{
    for (unsigned i = t->rest_count; i-- > 0;)
        if (packet_is_closed(t->rests[i]))
            drop_rest(t, i);
    if (t->rest_count == TAKEOVER_RESTS_MAX)
        drop_rest(t, 0);
    packet_set_patience(fd, 0);
    t->rests[t->rest_count] = fd;
    t->rest_count++;
}

static int say_hello(const struct takeover *t, struct err *err)
{
    struct json_out o;
    struct buf text;
    int r;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_u64(&o, "protocol", PACKET_PROTOCOL);
    json_put_str(&o, "version", SANDPOOL_VERSION);
    json_put_u64(&o, "schema", STORE_SCHEMA_VERSION);
    json_put_bool(&o, "rests", true);
    json_end(&o);
    buf_init(&text, PACKET_DATA_MAX);
    json_out_finish(&o, &text);
    r = packet_send(t->fd, PACKET_HELLO, buf_str(&text), text.len, NULL, 0, err);
    buf_fini(&text);
    return r;
}

/* What the service manager gave to it is valid for us, too. */
static int take_environment(const struct json *offer, struct err *err)
{
    static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = NULL;
        int r = json_field_str(offer, names[i], 256, &value, err);

        if (r != SP_OK)
            return r;
        if (value != NULL && setenv(names[i], value, 0) != 0)
            return err_set(err, SP_NO_MEMORY, "out of memory");
    }
    return SP_OK;
}

static int take_listeners(struct takeover *t, struct packet *b, const struct json *offer,
                          struct err *err)
{
    const struct json *list = json_get(offer, "listeners");
    int r = SP_OK;

    if (json_len(list) != b->fd_count)
        return err_set(err, SP_PROTOCOL, "an offer of %zu sockets with %u", json_len(list),
                       b->fd_count);
    for (unsigned i = 0; i < b->fd_count && r == SP_OK; i++) {
        const struct json *item = json_at(list, i);
        const char *name = "";
        bool is_foreign = false;
        uint64_t dev = 0;
        uint64_t ino = 0; /* 0: none, or a version that does not report it */
        int fd = b->fds[i];

        r = json_field_str(item, "name", LISTENER_NAME_MAX, &name, err);
        if (r == SP_OK)
            r = json_field_bool(item, "foreign", &is_foreign, err);
        if (r == SP_OK)
            r = json_field_u64(item, "dev", 0, INT64_MAX, &dev, err);
        if (r == SP_OK)
            r = json_field_u64(item, "ino", 0, INT64_MAX, &ino, err);
        if (r != SP_OK)
            return r;
        b->fds[i] = -1;
        r = listeners_add(t->listeners, name, fd, is_foreign, err);
        if (r == SP_OK && ino != 0)
            listeners_note_last(t->listeners, (dev_t) dev, (ino_t) ino);
    }
    if (r == SP_OK)
        b->fd_count = 0;
    return r;
}

static int take_offer(struct takeover *t, struct packet *b, struct err *err)
{
    struct json_doc *doc = json_parse(b->data, b->len, PACKET_DATA_MAX, err);
    const struct json *offer;
    uint64_t protocol = 0;
    uint64_t schema = UINT64_MAX;
    int r;

    if (doc == NULL)
        return err->code;
    offer = json_root(doc);
    r = json_field_u64(offer, "protocol", 0, UINT32_MAX, &protocol, err);
    if (r == SP_OK)
        r = json_field_u64(offer, "schema", 0, UINT32_MAX, &schema, err);
    if (r == SP_OK && protocol != PACKET_PROTOCOL)
        r = err_set(err, SP_PROTOCOL,
                    "the running daemon uses another take-over protocol: restart it");
    if (r == SP_OK && schema > STORE_SCHEMA_VERSION)
        r = err_set(err, SP_CONFIG,
                    "the running daemon is newer: its database has schema version %llu, this one "
                    "knows up to %d",
                    (unsigned long long) schema, STORE_SCHEMA_VERSION);
    if (r == SP_OK)
        r = take_environment(offer, err);
    if (r == SP_OK)
        r = take_listeners(t, b, offer, err);
    (void) json_doc_free(doc);
    return r;
}

static int refused(const struct packet *b, struct err *err)
{
    return err_set(err, SP_LOCKED, "the running daemon does not hand over: %.180s", b->data);
}

/* One connection: the packet, and the bytes that follow in packets of their own. */
static int take_connection(struct takeover *t, struct packet *b, struct err *err)
{
    struct json_doc *doc = json_parse(b->data, b->len, PACKET_DATA_MAX, err);
    const char *server = "";
    struct cargo_conn *c;
    uint64_t len = 0;
    int r;

    if (doc == NULL)
        return err->code;
    r = json_field_str(json_root(doc), "server", CARGO_NAME_MAX, &server, err);
    if (r == SP_OK)
        r = json_field_u64(json_root(doc), "bytes", 0, CARGO_BYTES_MAX, &len, err);
    if (r == SP_OK && b->fd_count != 1)
        r = err_set(err, SP_PROTOCOL, "a connection without its socket");
    if (r != SP_OK) {
        (void) json_doc_free(doc);
        return r;
    }
    c = cargo_add(t->cargo, server, b->fds[0]);
    b->fd_count = 0;
    (void) json_doc_free(doc);
    while (r == SP_OK && c->bytes.len < len) {
        r = packet_receive(t->fd, b, err);
        if (r == SP_OK && b->kind != PACKET_BYTES)
            r = err_set(err, SP_PROTOCOL, "bytes are missing");
        if (r == SP_OK)
            buf_append(&c->bytes, b->data, b->len);
        packet_drop_fds(b); /* bytes bring none */
        if (buf_failed(&c->bytes))
            r = err_set(err, SP_NO_MEMORY, "not enough memory for the open connections");
    }
    if (r == SP_OK)
        return SP_OK;
    c->bytes.is_failed = true; /* half a request must not be served */
    return r;
}

static int take_rest(struct takeover *t, struct packet *b, struct err *err)
{
    if (b->fd_count != 1)
        return err_set(err, SP_PROTOCOL, "a rest without its socket");
    add_rest(t, b->fds[0]);
    b->fd_count = 0;
    return SP_OK;
}

static int take_all(struct takeover *t, struct packet *b, struct err *err)
{
    for (;;) {
        int r = packet_receive(t->fd, b, err);

        if (r == SP_OK && b->kind == PACKET_NO)
            r = refused(b, err);
        else if (r == SP_OK && b->kind == PACKET_CONNECTION)
            r = take_connection(t, b, err);
        else if (r == SP_OK && b->kind == PACKET_REST)
            r = take_rest(t, b, err);
        else if (r == SP_OK && (b->kind != PACKET_YOURS || b->fd_count != 1))
            r = err_set(err, SP_PROTOCOL, "a packet of kind %d", b->kind);
        if (r != SP_OK) {
            packet_drop_fds(b);
            return r;
        }
        if (b->kind != PACKET_YOURS)
            continue;
        t->lock_fd = b->fds[0];
        return SP_OK;
    }
}

static int run(struct takeover *t, struct packet *b, struct err *err)
{
    int r;

    FAULT_POINT("takeover.new_asked");
    packet_set_patience(t->fd, OFFER_WAIT_MS);
    r = say_hello(t, err);
    if (r == SP_OK)
        r = packet_receive(t->fd, b, err);
    if (r != SP_OK)
        return r;
    if (b->kind == PACKET_NO)
        r = refused(b, err);
    else if (b->kind == PACKET_OFFER)
        r = take_offer(t, b, err);
    else
        r = err_set(err, SP_PROTOCOL, "a packet of kind %d", b->kind);
    packet_drop_fds(b);
    FAULT_POINT("takeover.new_offered");
    if (r == SP_OK)
        r = t->prepare(t->ctx, err);
    if (r == SP_OK)
        r = packet_send(t->fd, PACKET_READY, "", 0, NULL, 0, err);
    FAULT_POINT("takeover.new_ready");
    packet_set_patience(t->fd, GIVE_WAIT_MS);
    if (r == SP_OK)
        r = take_all(t, b, err);
    if (r == SP_OK)
        FAULT_POINT("takeover.new_given");
    return r;
}

int takeover_ask(struct takeover *t, bool *ret_was_there, struct err *err)
{
    struct packet *b;
    pid_t pid = 0;
    int r = packet_connect(t->state_dir, &t->fd, err);

    *ret_was_there = r == SP_OK;
    if (r == SP_CONNECT_FAILED)
        return SP_OK; /* nobody runs, or it is too old to be asked: the lock decides */
    if (r == SP_OK && !packet_is_allowed(t->fd, &pid) && geteuid() != 0)
        r = err_set(err, SP_FORBIDDEN, "the running daemon belongs to another user");
    if (r != SP_OK)
        return r;
    b = xcalloc(1, sizeof(*b));
    r = run(t, b, err);
    free(b);
    if (r == SP_CONNECT_FAILED) {
        log_warn("takeover.other_died", LF_I64("pid", pid), LF_STR("reason", err->msg));
        (void) close(t->fd); /* nobody is there */
        t->fd = -1;
        r = SP_OK;
    }
    return r;
}

void takeover_done(struct takeover *t)
{
    struct err err;

    if (t->fd < 0)
        return;
    FAULT_POINT("takeover.new_served");
    packet_set_patience(t->fd, DONE_WAIT_MS);
    if (packet_send(t->fd, PACKET_DONE, "", 0, NULL, 0, &err) != SP_OK)
        log_warn("takeover.other_died", LF_STR("reason", err.msg)); /* then it is ours anyway */
    FAULT_POINT("takeover.new_ended");
    add_rest(t, t->fd);
    t->fd = -1;
}

/* --- the rest of daemons before us --- */

void takeover_leave(struct takeover *t)
{
    while (t->rest_count > 0)
        drop_rest(t, 0);
}

static void report(struct takeover *t, enum packet_kind kind, struct json_out *o)
{
    struct buf text;
    struct err err;

    buf_init(&text, PACKET_DATA_MAX);
    json_out_finish(o, &text);
    for (unsigned i = t->rest_count; i-- > 0;)
        if (buf_failed(&text) ||
            packet_send(t->rests[i], kind, buf_str(&text), text.len, NULL, 0, &err) != SP_OK)
            drop_rest(t, i);
    buf_fini(&text);
}

void takeover_report_lease(struct takeover *t, uint64_t box, int code, const char *why)
{
    struct json_out o;
    char hex[17];

    if (t->rest_count == 0)
        return;
    str_hex64(hex, box);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "box", hex);
    json_put_str(&o, "code", sp_error_info(code)->name);
    json_put_str(&o, "why", why);
    json_end(&o);
    report(t, PACKET_LEASE, &o);
}

void takeover_report_caller(struct takeover *t, uint64_t principal)
{
    struct json_out o;
    char hex[17];

    if (t->rest_count == 0)
        return;
    str_hex64(hex, principal);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "principal", hex);
    json_end(&o);
    report(t, PACKET_CALLER, &o);
}
