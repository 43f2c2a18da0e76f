/* stream_call.c - see stream_call.h. */
#include "tests/unit/loop/stream_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/compiler.h"
#include "tests/lib/unit.h"

uint64_t stream_mib(void)
{
    const char *text = getenv("SANDPOOL_TEST_STREAM_MIB");

    return text != NULL ? strtoull(text, NULL, 10) : 256;
}

size_t stream_rss(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    (void) fclose(file);
    return pages * (size_t) sysconf(_SC_PAGESIZE);
}

uint64_t stream_cpu_us(void)
{
    struct rusage u;

    assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
    return (uint64_t) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
           (uint64_t) (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void on_rest_over(struct rt_timer *timer)
{
    struct fixture *f = container_of(timer, struct fixture, rest);

    loop_stop(&f->loop);
}

void stream_rest(struct fixture *f, uint64_t ms)
{
    rt_timer_set(&f->loop.rt, &f->rest, rt_after(rt_now(&f->loop.rt), ms * NS_PER_MS),
                 on_rest_over);
    loop_run(&f->loop);
}

struct stream *stream_of(struct httpc_request *r)
{
    return container_of(container_of(r, struct call, http), struct stream, call);
}

static void note_rss(struct stream *s)
{
    size_t rss = stream_rss();

    if (rss > s->rss_max)
        s->rss_max = rss;
}

void stream_push(struct httpc_request *r)
{
    struct stream *s = stream_of(r);
    size_t waiting = 0;

    while (s->sent < s->size && waiting < HELD_MAX) {
        uint64_t left = s->size - s->sent;
        size_t len = left < PATTERN_PIECE ? (size_t) left : PATTERN_PIECE;

        waiting = httpc_body_write(r, stream_pattern(s->sent), len);
        s->sent += len;
    }
    if (s->sent == s->size)
        httpc_body_end(r);
    if (s->sent % (8 * MIB) < HELD_MAX)
        note_rss(s);
}

static void on_resume(struct rt_task *task)
{
    struct stream *s = container_of(task, struct stream, resume);

    httpc_resume(&s->call.http);
}

void stream_on_data(struct httpc_request *r)
{
    struct stream *s = stream_of(r);

    assert_int_equal(s->call.done, 0);
    assert_int_not_equal(r->status, 0);
    s->calls++;
    if (r->response.len > s->left_max)
        s->left_max = r->response.len;
    if (s->is_leaving)
        return;
    for (size_t len = r->response.len; len > 0; len = r->response.len) {
        size_t n = len < PATTERN_PIECE ? len : PATTERN_PIECE;

        assert_memory_equal(r->response.data, stream_pattern(s->got), n);
        buf_consume(&r->response, n);
        s->got += n;
    }
    if (s->got % (8 * MIB) < 65536)
        note_rss(s);
    if (s->is_pausing) {
        httpc_pause(r);
        rt_defer(r->op.rt, &s->resume, on_resume);
    }
}

void stream_prepare_up(struct fixture *f, struct stream *s, const char *path, uint64_t size)
{
    prepare_call(f, &s->call, path);
    s->call.http.method = "POST";
    s->call.http.is_body_streamed = true;
    s->call.http.body_size = -1;
    s->call.http.on_body_drain = stream_push;
    s->size = size;
}

void stream_assert_answer(struct stream *s, int status, const char *text)
{
    assert_int_equal(s->call.done, 1);
    assert_int_equal(s->call.result, SP_OK);
    assert_int_equal(s->call.http.status, status);
    assert_string_equal(buf_str(&s->call.http.response), text);
    httpc_request_fini(&s->call.http);
}

/* A sanitizer keeps what was freed for a while. */
static bool is_sanitized(void)
{
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

void stream_assert_flat(const struct stream *s, size_t rss_before)
{
    print_message("memory: %zu KiB before, %zu KiB at most\n", rss_before >> 10, s->rss_max >> 10);
    assert_true(is_sanitized() || s->rss_max < rss_before + 8 * MIB);
}

void stream_on_cancel_time(struct rt_timer *timer)
{
    cancel_call(container_of(timer, struct call, cancel));
}
