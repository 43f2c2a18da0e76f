/* log.c - the ring, the sink and the rate limit. Formatting is in log_line.c. */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"

enum {
    RING_SIZE = 256 * 1024,
    LINE_MAX_LEN = 8 * 1024,
    RATE_SLOTS = 64,
    RATE_PER_SECOND = 20,
    CHUNK = 4096, /* a pipe that polls writable takes this much without blocking */
};

struct rate_slot {
    uint64_t event_hash;
    uint64_t second;
    unsigned count;
    uint64_t suppressed;
};

static char ring[RING_SIZE]; /* apart from what is initialised: it need not be in the file */

static struct {
    int fd;
    const struct log_writer *writer; /* NULL: written here */
    enum log_level level;
    enum log_format format;
    bool is_journal;
    size_t start;
    size_t len;
    uint64_t dropped;
    uint64_t dropped_reported;
    struct rate_slot rates[RATE_SLOTS];
} sink = {.fd = -1, .level = LOG_INFO};

/* What syslog calls debug, info, warning and error. */
static const char *const marks[LOG_LEVEL_COUNT] = {"<7>", "<6>", "<4>", "<3>"};

/* Whoever set the variable may have had another standard error than we have: so it names the file. */
static bool is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    char own[48];

    if (stream == NULL || fstat(fd, &st) != 0)
        return false;
    (void) snprintf(own, sizeof(own), "%llu:%llu", (unsigned long long) st.st_dev,
                    (unsigned long long) st.st_ino);
    return strcmp(own, stream) == 0;
}

void log_setup(int fd, enum log_level level, enum log_format format)
{
    sink.fd = fd;
    sink.writer = NULL;
    sink.is_journal = is_journal(fd);
    log_set_level(level, format);
}

void log_set_writer(const struct log_writer *writer)
{
    sink.writer = writer;
}

const char *log_mark(int fd, enum log_level level)
{
    return is_journal(fd) ? marks[level] : "";
}

void log_set_level(enum log_level level, enum log_format format)
{
    sink.level = level;
    sink.format = format;
}

static uint64_t clock_ms(clockid_t id)
{
    struct timespec ts;

    (void) clock_gettime(id, &ts); /* cannot fail for the two that are asked */
    return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

static uint64_t wall_ms_now(void)
{
    return clock_ms(CLOCK_REALTIME);
}

static void ring_put(const char *data, size_t len)
{
    size_t at;
    size_t first;

    if (len > RING_SIZE - sink.len) {
        sink.dropped++;
        return;
    }
    at = (sink.start + sink.len) % RING_SIZE;
    first = len < RING_SIZE - at ? len : RING_SIZE - at;
    memcpy(ring + at, data, first);
    memcpy(ring, data + first, len - first);
    sink.len += len;
}

static void put_line(uint64_t wall_ms, enum log_level level, const char *event,
                     const struct log_field *fields)
{
    struct buf line;

    buf_init(&line, LINE_MAX_LEN);
    if (sink.is_journal)
        buf_puts(&line, marks[level]);
    log_format_line(&line, sink.format, wall_ms, level, event, fields);
    buf_putc(&line, '\n');
    if (buf_failed(&line))
        sink.dropped++;
    else
        ring_put(line.data, line.len);
    buf_fini(&line);
}

/* The event's own slot, else one that is not in use this second, else (more events in one second
 * than slots) one it shares: those limit each other. */
static struct rate_slot *rate_slot_of(uint64_t hash, uint64_t second)
{
    struct rate_slot *idle = NULL;

    for (size_t i = 0; i < RATE_SLOTS; i++) {
        struct rate_slot *slot = &sink.rates[(hash + i) % RATE_SLOTS];

        if (slot->event_hash == hash)
            return slot;
        if (idle == NULL && slot->second != second)
            idle = slot;
    }
    return idle != NULL ? idle : &sink.rates[hash % RATE_SLOTS];
}

/* False when this event had its share of the current second. `*ret_suppressed` is how many were
 * kept back since the last one that passed. */
static bool rate_allows(const char *event, uint64_t second, uint64_t *ret_suppressed)
{
    uint64_t hash = hash_str(event);
    struct rate_slot *slot = rate_slot_of(hash, second);

    *ret_suppressed = 0;
    if (slot->second != second) {
        if (slot->event_hash == hash)
            *ret_suppressed = slot->suppressed;
        *slot = (struct rate_slot){.event_hash = hash, .second = second};
    }
    slot->count++;
    if (slot->count <= RATE_PER_SECOND)
        return true;
    slot->suppressed++;
    return false;
}

void log_write(enum log_level level, const char *event, const struct log_field *fields)
{
    uint64_t wall_ms;
    uint64_t suppressed;

    if (sink.fd < 0 || level < sink.level)
        return;
    wall_ms = wall_ms_now();
    if (!rate_allows(event, wall_ms / 1000, &suppressed))
        return;
    if (suppressed > 0)
        put_line(wall_ms, LOG_WARN, "log.suppressed",
                 (struct log_field[]){LF_STR("of", event), LF_U64("count", suppressed), LF_END});
    put_line(wall_ms, level, event, fields);
}

/* Also true for a sink that is gone: the write then returns the error. */
static bool sink_is_writable(uint64_t wait_until_ms)
{
    struct pollfd p = {.fd = sink.fd, .events = POLLOUT};
    uint64_t now_ms = wait_until_ms > 0 ? clock_ms(CLOCK_MONOTONIC) : 0;
    int wait_ms = wait_until_ms > now_ms ? (int) (wait_until_ms - now_ms) : 0;

    return sink.writer != NULL ? sink.writer->wait(wait_ms) : poll(&p, 1, wait_ms) == 1;
}

static ssize_t write_some(const char *data, size_t len)
{
    return sink.writer != NULL ? sink.writer->write(sink.fd, data, len) : write(sink.fd, data, len);
}

/* `wait_until_ms` on the monotonic clock; 0: do not wait. */
static bool flush_until_stuck(uint64_t wait_until_ms)
{
    while (sink.len > 0) {
        size_t most = sink.writer != NULL ? LOG_WRITER_MAX : CHUNK;
        size_t n = sink.len < most ? sink.len : most;
        ssize_t written;

        if (n > RING_SIZE - sink.start)
            n = RING_SIZE - sink.start;
        if (!sink_is_writable(wait_until_ms))
            return false;
        written = write_some(ring + sink.start, n);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            if (errno != EAGAIN) { /* the sink is gone: nobody can be notified */
                sink.dropped++;
                sink.len = 0;
            }
            return sink.len == 0;
        }
        sink.start = (sink.start + (size_t) written) % RING_SIZE;
        sink.len -= (size_t) written;
    }
    return true;
}

bool log_flush(void)
{
    if (sink.fd < 0 || sink.len == 0)
        return true;
    if (sink.dropped != sink.dropped_reported && sink.len < RING_SIZE / 2) {
        uint64_t count = sink.dropped - sink.dropped_reported;

        sink.dropped_reported = sink.dropped;
        put_line(wall_ms_now(), LOG_WARN, "log.dropped",
                 (struct log_field[]){LF_U64("count", count), LF_END});
    }
    return flush_until_stuck(0);
}

void log_flush_wait(void)
{
    uint64_t until_ms = clock_ms(CLOCK_MONOTONIC) + 1000; /* what is left then is lost */

    if (sink.fd >= 0 && flush_until_stuck(until_ms) && sink.writer != NULL)
        (void) sink_is_writable(until_ms);
}

uint64_t log_dropped(void)
{
    return sink.dropped;
}
