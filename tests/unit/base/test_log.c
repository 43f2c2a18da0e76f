/* Lines of the log, secrets kept out of them, and a sink that is slow, full or gone. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/json.h"
#include "base/log.h"
#include "base/log_thread.h"
#include "tests/lib/at_most.h"
#include "tests/lib/unit.h"

static int sink[2]; /* a pipe: the test reads what the log writes */

static int set_up(void **state)
{
    (void) state;
    assert_int_equal(pipe(sink), 0);
    assert_int_equal(fcntl(sink[0], F_SETFL, O_NONBLOCK), 0);
    log_setup(sink[1], LOG_INFO, LOG_LOGFMT);
    return 0;
}

static int tear_down(void **state)
{
    (void) state;
    log_setup(-1, LOG_INFO, LOG_LOGFMT);
    close(sink[0]);
    if (sink[1] >= 0)
        close(sink[1]);
    return 0;
}

static uint64_t clock_ms(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

/* The rate limit counts by the second of the wall clock: a test that counts must not cross one. */
static void wait_for_a_young_second(void)
{
    uint64_t into_ms = clock_ms(CLOCK_REALTIME) % 1000;

    if (into_ms > 300)
        usleep((useconds_t) (1000 - into_ms) * 1000);
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;

    for (const char *p = strstr(text, word); p != NULL; p = strstr(p + 1, word))
        count++;
    return count;
}

/* What has arrived at the sink; cut at the buffer's size. */
static const char *arrived(void)
{
    static char text[400 * 1024];
    size_t len = 0;

    for (;;) {
        ssize_t n = read(sink[0], text + len, sizeof(text) - 1 - len);

        if (n <= 0)
            break;
        len += (size_t) n;
    }
    text[len] = '\0';
    return text;
}

static const char *format(enum log_format f, const struct log_field *fields)
{
    static struct buf out;

    buf_fini(&out);
    buf_init(&out, 8192);
    log_format_line(&out, f, 1700000000123, LOG_WARN, "a.b", fields);
    return buf_str(&out);
}

static void test_formats(void **state)
{
    const struct log_field fields[] = {
        LF_STR("s", "plain"),    LF_STR("q", "two words"), LF_STR("e", ""),    LF_STR("n", NULL),
        LF_U64("u", UINT64_MAX), LF_I64("i", -5),          LF_HEX("box", 255), LF_END};

    (void) state;
    assert_string_equal(format(LOG_LOGFMT, fields),
                        "ts=2023-11-14T22:13:20.123Z level=warn event=a.b s=plain q=\"two words\" "
                        "e=\"\" n=\"\" u=18446744073709551615 i=-5 box=00000000000000ff");
    assert_string_equal(format(LOG_JSON, fields),
                        "{\"ts\":\"2023-11-14T22:13:20.123Z\",\"level\":\"warn\",\"event\":\"a.b\","
                        "\"s\":\"plain\",\"q\":\"two words\",\"e\":\"\",\"n\":\"\","
                        "\"u\":18446744073709551615,\"i\":-5,\"box\":\"00000000000000ff\"}");
}

/* Whatever is in a value, the line stays one line and the JSON stays JSON. */
static void test_hostile_values(void **state)
{
    static const char *const values[] = {
        "a\nb level=error", "\"",       "\\",       "a=b",          "\x1b[31m", "\r\t", "\x7f",
        "caf\xc3\xa9",      "cut \xc3", "\xff\xfe", "\xed\xa0\x80", "\\u0000"};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        const struct log_field fields[] = {LF_STR("v", values[i]), LF_END};
        const char *line = format(LOG_JSON, fields);
        struct json_doc *doc = json_parse(line, strlen(line), 8192, NULL);

        assert_non_null(doc);
        assert_non_null(json_str(json_get(json_root(doc), "v")));
        if (i < 7)
            assert_string_equal(json_str(json_get(json_root(doc), "v")), values[i]);
        doc = json_doc_free(doc);
        line = format(LOG_LOGFMT, fields);
        assert_null(strpbrk(line, "\n\r\t\x1b\x7f"));
        assert_non_null(strstr(line, " v=\""));
    }
}

static void test_secrets(void **state)
{
    static const char *const keys[] = {"token",  "access_token", "Authorization", "api_key",
                                       "key",    "privateKey",   "password",      "client_secret",
                                       "Cookie", "set-cookie"};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct log_field fields[] = {LF_STR(keys[i], "hunter2"), LF_STR("user", "bob"),
                                           LF_END};
        const struct log_field number[] = {LF_U64(keys[i], 424242), LF_END};

        assert_null(strstr(format(LOG_LOGFMT, fields), "hunter2"));
        assert_non_null(strstr(format(LOG_LOGFMT, fields), "[redacted]"));
        assert_non_null(strstr(format(LOG_LOGFMT, fields), "user=bob"));
        assert_null(strstr(format(LOG_JSON, fields), "hunter2"));
        assert_null(strstr(format(LOG_JSON, number), "424242"));
    }
}

static void test_levels(void **state)
{
    const char *text;

    (void) state;
    log_debug("test.debug", LF_U64("n", 1));
    log_info("test.info", LF_U64("n", 1));
    log_set_level(LOG_ERROR, LOG_JSON);
    log_warn("test.warn", LF_U64("n", 1));
    log_error("test.error", LF_U64("n", 1));
    assert_string_equal(arrived(), ""); /* nothing before the flush */
    assert_true(log_flush());
    text = arrived();
    assert_null(strstr(text, "test.debug"));
    assert_non_null(strstr(text, " event=test.info n=1\n"));
    assert_null(strstr(text, "test.warn"));
    assert_non_null(strstr(text, "\"event\":\"test.error\",\"n\":1}\n"));
}

static void test_rate_limit(void **state)
{
    const char *text;

    (void) state;
    wait_for_a_young_second();
    for (int i = 0; i < 100; i++) {
        log_info("test.rate", LF_U64("n", i));
        log_info("test.other", LF_U64("n", i)); /* has a share of its own */
    }
    log_info("test.once", LF_U64("n", 1));
    assert_true(log_flush());
    text = arrived();
    assert_int_equal(count_of(text, "event=test.rate"), 20);
    assert_int_equal(count_of(text, "event=test.other"), 20);
    assert_int_equal(count_of(text, "event=test.once"), 1);
    assert_int_equal(count_of(text, "log.suppressed"), 0);
    usleep(1000 * 1000);
    log_info("test.rate", LF_U64("n", 1));
    assert_true(log_flush());
    text = arrived();
    assert_non_null(strstr(text, "event=log.suppressed of=test.rate count=80\n"));
    assert_int_equal(count_of(text, "event=test.rate"), 1);
}

/* Events whose slots collide limit one another at worst; they never set each other free. */
static void test_rate_limit_of_many_events(void **state)
{
    char name[32];
    size_t lines;

    (void) state;
    wait_for_a_young_second();
    for (int round = 0; round < 30; round++)
        for (int i = 0; i < 40; i++) {
            snprintf(name, sizeof(name), "test.many.%d", i);
            log_info(name, LF_U64("n", round));
        }
    (void) log_flush();
    lines = count_of(arrived(), "event=test.many.");
    while (!log_flush())
        lines += count_of(arrived(), "event=test.many.");
    lines += count_of(arrived(), "event=test.many.");
    assert_int_equal(lines, 40 * 20);
}

static void fill_pipe(void)
{
    char junk[4096] = "";

    assert_int_equal(fcntl(sink[1], F_SETFL, O_NONBLOCK), 0);
    while (write(sink[1], junk, sizeof(junk)) > 0)
        continue;
    assert_int_equal(fcntl(sink[1], F_SETFL, 0), 0); /* blocking, as a daemon's stderr is */
}

static void test_full_sink_never_blocks(void **state)
{
    char name[32];
    char filler[2000];
    uint64_t dropped = log_dropped();
    uint64_t start_ms;

    (void) state;
    memset(filler, 'f', sizeof(filler) - 1);
    filler[sizeof(filler) - 1] = '\0';
    fill_pipe();
    usleep(1000 * 1000); /* a second in which no other test has used up the rates */
    wait_for_a_young_second();
    start_ms = clock_ms(CLOCK_MONOTONIC);
    for (int i = 0; i < 400; i++) { /* 800 KB into a ring of 256 */
        snprintf(name, sizeof(name), "test.full.%d", i % 40);
        log_info(name, LF_STR("filler", filler));
        assert_false(log_flush());
    }
    assert_true(clock_ms(CLOCK_MONOTONIC) - start_ms < 5000);
    assert_in_range(log_dropped() - dropped, 200, 399);
    (void) arrived(); /* the junk */
    while (!log_flush())
        (void) arrived();
    log_info("test.after", LF_U64("n", 1)); /* and it says what is missing */
    assert_true(log_flush());
    assert_non_null(strstr(arrived(), "event=log.dropped count="));
}

static void test_flush_wait_is_bounded(void **state)
{
    uint64_t start_ms = clock_ms(CLOCK_MONOTONIC);
    uint64_t took_ms;

    (void) state;
    fill_pipe();
    log_info("test.wait", LF_U64("n", 1));
    log_flush_wait();
    took_ms = clock_ms(CLOCK_MONOTONIC) - start_ms;
    assert_in_range(took_ms, 900, at_most(4000));
    (void) arrived();
    log_flush_wait(); /* goes through at once now */
    assert_non_null(strstr(arrived(), "test.wait"));
}

static void test_dead_sink(void **state)
{
    uint64_t dropped;

    (void) state;
    fill_pipe(); /* full and without a reader: only the error shows it */
    close(sink[0]);
    sink[0] = open("/dev/null", O_RDONLY);
    dropped = log_dropped();
    log_info("test.dead", LF_U64("n", 1));
    assert_true(log_flush()); /* nothing is kept for nobody */
    assert_true(log_dropped() > dropped);
    log_flush_wait();
}

/* A write that hangs, as on a disk, is the thread's: nothing is lost but what the ring cannot hold. */
static void test_thread_takes_a_write_that_hangs(void **state)
{
    uint64_t start_ms;
    uint64_t dropped = log_dropped();

    (void) state;
    fill_pipe();
    assert_int_equal(fcntl(sink[1], F_SETFL, 0), 0);
    log_thread_start();
    start_ms = clock_ms(CLOCK_MONOTONIC);
    log_info("test.first", LF_U64("n", 1));
    assert_true(log_flush()); /* the thread has it */
    log_info("test.second", LF_U64("n", 2));
    for (int i = 0; i < 100; i++)
        assert_false(log_flush());
    assert_in_range(clock_ms(CLOCK_MONOTONIC) - start_ms, 0, at_most(2000));
    log_flush_wait(); /* a second, and no longer */
    assert_in_range(clock_ms(CLOCK_MONOTONIC) - start_ms, 900, at_most(4000));
    assert_int_equal(log_dropped(), dropped);
    for (int i = 0; i < 30 && strstr(arrived(), "test.second") == NULL; i++) {
        log_flush_wait();
        if (i == 29)
            fail_msg("the line never came");
    }
}

static void test_thread_reports_a_dead_sink(void **state)
{
    uint64_t dropped = log_dropped();

    (void) state;
    close(sink[0]);
    sink[0] = open("/dev/null", O_RDONLY);
    log_thread_start();
    for (int i = 0; i < 2; i++) {
        log_info("test.dead", LF_U64("n", i));
        log_flush_wait();
    }
    assert_true(log_dropped() > dropped);
}

static void test_line_too_long(void **state)
{
    static char huge[20000];
    uint64_t dropped = log_dropped();

    (void) state;
    memset(huge, 'h', sizeof(huge) - 1);
    log_info("test.huge", LF_STR("h", huge));
    assert_int_equal(log_dropped(), dropped + 1);
    log_info("test.small", LF_U64("n", 1));
    assert_true(log_flush());
    assert_null(strstr(arrived(), "test.huge"));
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOG_TEST(test_formats),
        LOG_TEST(test_hostile_values),
        LOG_TEST(test_secrets),
        LOG_TEST(test_levels),
        LOG_TEST(test_rate_limit),
        LOG_TEST(test_rate_limit_of_many_events),
        LOG_TEST(test_full_sink_never_blocks),
        LOG_TEST(test_flush_wait_is_bounded),
        LOG_TEST(test_dead_sink),
        LOG_TEST(test_thread_takes_a_write_that_hangs),
        LOG_TEST(test_thread_reports_a_dead_sink),
        LOG_TEST(test_line_too_long),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
