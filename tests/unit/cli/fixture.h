/* fixture.h - the whole program against a server that answers from a script: what is asked, what is
 * printed, and with which code it ends. */
#ifndef TESTS_UNIT_CLI_FIXTURE_H
#define TESTS_UNIT_CLI_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "tests/lib/unit.h"
#include "tests/unit/client/script_server.h"

enum { STEPS_MAX = 8 };

/* A daemon with answers, the program run once, and what came of it. */
struct fixture {
    struct step steps[STEPS_MAX];
    char *answers[STEPS_MAX];
    size_t count;
    struct script_server *server;
    char *out;
    char *err;
    int code;
};

static inline void will_answer(struct fixture *w, int status, const char *body)
{
    char *text = NULL;

    assert_true(w->count < STEPS_MAX);
    assert_true(asprintf(&text, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n%s", status,
                         strlen(body), body) > 0);
    w->answers[w->count] = text;
    w->steps[w->count] = (struct step){.answer = text};
    w->count++;
}

#define RUN(w, ...) run(w, (const char *const[]){"sandpool", __VA_ARGS__, NULL})

static inline void run(struct fixture *w, const char *const *argv)
{
    size_t len;
    FILE *out = open_memstream(&w->out, &len);
    FILE *err = open_memstream(&w->err, &len);
    int argc = 0;

    assert_non_null(out);
    assert_non_null(err);
    while (argv[argc] != NULL)
        argc++;
    w->server = script_server_start(w->steps, w->count);
    assert_int_equal(setenv("SANDPOOL_SOCKET", script_server_path(w->server), 1), 0);
    w->code = cli_main(argc, argv, out, err);
    (void) fclose(out);
    (void) fclose(err);
    script_server_stop(w->server);
    assert_int_equal(unsetenv("SANDPOOL_SOCKET"), 0);
}

/* The n-th request must begin so and end so. */
static inline void expect_request(const struct fixture *w, unsigned n, const char *head,
                                  const char *body)
{
    const char *text = script_server_request(w->server, n);
    const char *end = strstr(text, "\r\n\r\n");

    if (strncmp(text, head, strlen(head)) != 0)
        fail_msg("asked '%s', not '%s'", text, head);
    assert_non_null(end);
    assert_string_equal(end + 4, body);
}

static inline void finish(struct fixture *w)
{
    script_server_free(w->server);
    for (size_t i = 0; i < w->count; i++)
        free(w->answers[i]);
    free(w->out);
    free(w->err);
    memset(w, 0, sizeof(*w));
}

#endif
