/* get_image - runs oci_image_start() for test_image.py and prints how it ended, one JSON object per
 * ask. get_image cache_dir user count cancel_after_ms image...   (count asks of each image at once;
 * 0 ms: no cancel) */
#include <stdio.h>
#include <stdlib.h>

#include "backends/oci/image.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "loop/loop.h"

struct driver {
    struct loop loop;
    struct rt_timer cancel;
    struct list ops;
    size_t left;
};

struct ask {
    struct oci_image image;
    struct driver *driver;
};

static void on_done(struct op *op)
{
    struct ask *a = container_of(op, struct ask, image.op);
    const struct oci_image *r = &a->image;
    struct json_out o;
    struct buf text;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "result", op->result == SP_OK ? "ok" : sp_error_info(op->result)->name);
    json_put_str(&o, "message", op->err.msg);
    json_put_str(&o, "rootfs", r->rootfs);
    json_put_str(&o, "workdir", r->workdir);
    json_begin_arr(&o, "env");
    for (char **item = r->env; item != NULL && *item != NULL; item++)
        json_put_str(&o, NULL, *item);
    json_end(&o);
    json_end(&o);
    buf_init(&text, 1 << 20);
    json_out_finish(&o, &text);
    puts(buf_str(&text));
    buf_fini(&text);
    oci_image_fini(&a->image);
    if (--a->driver->left == 0) {
        rt_timer_cancel(&a->driver->loop.rt, &a->driver->cancel);
        loop_stop(&a->driver->loop);
    }
    free(a);
}

static void on_cancel(struct rt_timer *timer)
{
    struct driver *d = container_of(timer, struct driver, cancel);

    op_cancel_all(&d->ops);
    op_cancel_all(&d->ops); /* a second time changes nothing */
}

int main(int argc, char **argv)
{
    static struct driver d;
    struct err err;
    unsigned long count;
    unsigned long cancel_ms;

    if (argc < 6 || loop_init(&d.loop, &err) != SP_OK)
        return 2;
    list_init(&d.ops);
    count = strtoul(argv[3], NULL, 10);
    cancel_ms = strtoul(argv[4], NULL, 10);
    for (unsigned long i = 0; i < count * (unsigned long) (argc - 5); i++) {
        struct ask *a = xcalloc(1, sizeof(*a));

        a->driver = &d;
        a->image.image = argv[5 + i % (unsigned long) (argc - 5)];
        a->image.cache_dir = argv[1];
        a->image.user = argv[2];
        a->image.user_id = 1000;
        d.left++;
        oci_image_start(&d.loop, &a->image, &d.ops, rt_now(&d.loop.rt) + 60 * NS_PER_S, on_done);
    }
    if (cancel_ms > 0)
        rt_timer_set(&d.loop.rt, &d.cancel, rt_now(&d.loop.rt) + cancel_ms * NS_PER_MS, on_cancel);
    loop_run(&d.loop);
    loop_fini(&d.loop);
    return 0;
}
