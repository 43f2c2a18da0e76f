/* examine.c - what `sandpool doctor` shows of this backend: does the engine answer, what does it say of
 * itself, and what is missing. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

enum {
    NETWORKS_MAX = 256,
    ADDRESS_SET = 3, /* NET_ADDR_SET of the kernel */
};

/* `priv` of the request. */
struct examining {
    struct docker *docker;
    struct backend_exam *request;
    struct call call;
};

static const char *text_of(const struct json *v, const char *key)
{
    const char *text = json_str(json_get(v, key));

    return text != NULL ? text : "?";
}

static void report_docker(struct backend_exam *r, const struct docker *d, const struct json *info)
{
    static const struct {
        const char *key;
        const char *what;
    } limits[] = {{"MemoryLimit", "memory"}, {"CpuCfsQuota", "cpus"}, {"PidsLimit", "pids"}};

    backend_report(r, BACKEND_FINDING_OK, "engine", "%.100s: version %.40s, API %s, storage %.40s",
                   d->address, text_of(info, "ServerVersion"), d->version, text_of(info, "Driver"));
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (!json_bool(json_get(info, limits[i].key)))
            backend_report(r, BACKEND_FINDING_WARN, "limits", "the engine cannot limit %s",
                           limits[i].what);
    backend_report(r, BACKEND_FINDING_OK, "runtime", "%.60s unless a profile says otherwise",
                   text_of(info, "DefaultRuntime"));
    docker_disk_report(r, d, text_of(info, "Driver"));
}

static void finish(struct examining *x, int rc, const struct err *err)
{
    struct backend_exam *r = x->request;

    r->priv = NULL;
    closing_finish(&x->docker->closing, &r->op, r->op.state == OP_RUNNING ? SP_OK : rc, err);
    call_fini(&x->call);
    free(x);
}

/* --- networks --- */

/* How a device got its hardware address, by the kernel's number (3: it was set); 0: no such device here. */
static int address_origin(const char *device)
{
    char path[64];
    char text[8];

    if (strchr(device, '/') != NULL ||
        (size_t) snprintf(path, sizeof(path), "/sys/class/net/%s/addr_assign_type", device) >=
            sizeof(path))
        return 0;
    return file_read_start(AT_FDCWD, path, text, sizeof(text)) > 0 ? text[0] - '0' : 0;
}

/* A bridge whose address nobody has set has the lowest of its ports', and so another one when that
 * container goes. What the others send to the old one is lost until they ask anew. */
static void report_bridge(struct backend_exam *r, const struct json *network)
{
    const char *driver = json_str(json_get(network, "Driver"));
    const char *id = json_str(json_get(network, "Id"));
    const char *name =
        json_str(json_get(json_get(network, "Options"), "com.docker.network.bridge.name"));
    char own[16];
    int origin;

    if (driver == NULL || strcmp(driver, "bridge") != 0 || (name == NULL && id == NULL))
        return;
    if (name == NULL) {
        (void) snprintf(own, sizeof(own), "br-%.12s", id);
        name = own;
    }
    origin = address_origin(name);
    if (origin != 0 && origin != ADDRESS_SET)
        backend_report(
            r, BACKEND_FINDING_WARN, "network",
            "the hardware address of the bridge %.15s changes when containers come and go, "
            "and answers of others are late by seconds then: `ip link set dev %.15s "
            "address $(cat /sys/class/net/%.15s/address)` keeps it",
            name, name, name);
}

static void on_networks(struct op *op)
{
    struct examining *x = container_of(op, struct examining, call.op);
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&x->call, &doc, &err);

    for (size_t i = 0; rc == SP_OK && i < MIN_OF(json_len(json_root(doc)), NETWORKS_MAX); i++)
        report_bridge(x->request, json_at(json_root(doc), i));
    (void) json_doc_free(doc);
    finish(x, rc, &err);
}

/* --- the engine --- */

static void on_info(struct op *op)
{
    struct examining *x = container_of(op, struct examining, call.op);
    struct backend_exam *r = x->request;
    struct docker *d = x->docker;
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&x->call, &doc, &err);

    if (rc == SP_OK)
        report_docker(r, d, json_root(doc));
    else if (r->op.state == OP_RUNNING)
        backend_report(r, BACKEND_FINDING_FAIL, "engine", "%.240s", err.msg);
    (void) json_doc_free(doc);
    if (!str_is_empty(d->agent))
        backend_report(r, BACKEND_FINDING_OK, "agent", "%.200s", d->agent);
    else
        backend_report(r, BACKEND_FINDING_FAIL, "agent",
                       "there is no sandpool-agent beside the daemon");
    if (docker_mount_check(d, &err) == SP_OK)
        backend_report(r, BACKEND_FINDING_OK, "mounts", "boxes that run take more, by %.200s",
                       d->helper);
    else
        backend_report(r, BACKEND_FINDING_WARN, "mounts", "%.240s", err.msg);
    docker_hoard_report(r, d);
    if (docker_mount_check(d, NULL) == SP_OK)
        reclaims_report(r);
    if (str_is_empty(d->socket))
        backend_report(
            r, BACKEND_FINDING_WARN, "network", "over TCP only `network: nat` can be used%s",
            d->is_tls ? "" : ", and without TLS whoever reaches the engine is root there");
    if (rc != SP_OK || r->op.state != OP_RUNNING || str_is_empty(d->socket)) {
        finish(x, rc, &err);
        return;
    }
    docker_call_init(d, &x->call, "GET");
    buf_puts(&x->call.path, "/networks");
    docker_call_start(&x->call, RT_NEVER, on_networks);
}

static void on_cancel(struct op *op)
{
    struct examining *x = container_of(op, struct backend_exam, op)->priv;

    op_cancel(&x->call.op);
}

void docker_examine(struct backend *backend, struct backend_exam *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct examining *x = xcalloc(1, sizeof(*x));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_cancel, on_done);
    x->docker = d;
    x->request = r;
    r->priv = x;
    docker_call_init(d, &x->call, "GET");
    buf_puts(&x->call.path, "/info");
    docker_call_start(&x->call, RT_NEVER, on_info);
}
