/* cmd_why.c - sandpool why: the audit trail of one sandbox as sentences. */
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "cli/cli.h"

enum { PAGE = 1000, TARGET_MAX = 2048 };

struct word {
    const char *name;
    const char *text;
};

/* Of the events that need no more than their name. */
static const struct word kinds[] = {
    {"created", "it was being made"},
    {"ready", "it was ready"},
    {"renewed", "its lease was renewed"},
    {"parked", "it was released, and kept for its thread"},
    {"paused", "it was paused"},
    {"resumed", "it went on"},
    {"updated", "it got the variables, mounts or limits that an acquire asked for"},
    {"gone", "nothing is left of it"},
    {"adopted", "the daemon found it again after a restart"},
    {"files_deleted", "its files were deleted"},
    {"hibernate_failed", "its files could not be kept yet"},
    {"box.oom", "a process in it was killed: its memory was used up"},
    {"box.paused", "its engine paused it"},
    {"box.resumed", "its engine let it go on"},
};

static const struct word sources[] = {
    {"kept", "its thread asked again and has it still"},
    {"parked", "its thread took it up again"},
    {"discovered", "it was found at its backend and given to its thread"},
    {"warm", "it was given to its thread: a box that was ready"},
    {"cold", "it was given to its thread: a new box"},
    {"restored", "it was given to its thread: a new box from a snapshot"},
};

static const struct word ends[] = {
    {"released", "its caller gave it back"},
    {"destroyed", "somebody destroyed it"},
    {"ttl", "the time of its lease was over"},
    {"idle", "nobody used it for too long"},
    {"evicted", "its room was needed for another box"},
    {"died", "its first process died"},
    {"machine_restarted", "the machine was restarted"},
    {"aged", "it was ready for too long"},
    {"drift", "its profile was changed"},
    {"shrunk", "fewer ready boxes were needed"},
    {"drained", "the pool was drained"},
    {"create_failed", "it could not be made"},
    {"not_ready", "it did not become ready"},
    {"orphan", "nobody knew it"},
    {"network_ended", "its network ended"},
    {"guard_ended", "its guard ended"},
    {"hibernated", "its time was over, and its files were kept"},
    {"not_kept", "its time was over, and there was no room to keep its files"},
    {"kernel_memory", "it held too much memory of the kernel"},
};

/* The name itself when there is no better text. */
static const char *text_of(const struct word *words, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].name, name) == 0)
            return words[i].text;
    }
    return name;
}

static void add_reason(struct buf *out, const char *text, const char *reason)
{
    buf_puts(out, text);
    if (!str_is_empty(reason))
        buf_printf(out, ": %s", reason);
}

static void put_sentence(const struct json *event, struct buf *out)
{
    const char *kind = show_str(event, "event");
    const char *reason = show_str(event, "reason");
    const char *end = text_of(ends, ARRAY_LEN(ends), show_str(event, "why"));

    if (strcmp(kind, "leased") == 0)
        buf_puts(out, text_of(sources, ARRAY_LEN(sources), reason));
    else if (strcmp(kind, "doomed") == 0)
        add_reason(out, "it had to end",
                   str_is_empty(end) ? text_of(ends, ARRAY_LEN(ends), reason) : end);
    else if (strcmp(kind, "lost") == 0)
        add_reason(out, "it was lost", str_is_empty(reason) ? end : reason);
    else if (strcmp(kind, "refused") == 0)
        add_reason(out, "an acquire was refused",
                   str_is_empty(reason) ? show_str(event, "code") : reason);
    else if (strcmp(kind, "create_failed") == 0)
        add_reason(out, "it could not be made", reason);
    else
        add_reason(out, text_of(kinds, ARRAY_LEN(kinds), kind), reason);
    if (strcmp(kind, "refused") == 0 && !str_is_empty(reason))
        buf_printf(out, " (%s)", show_str(event, "code"));
}

struct story {
    struct cli *c;
    uint64_t count;
    char box[24];        /* which the last sentence was about */
    char sentence[1024]; /* the last one, not printed yet */
    char at[40];
    unsigned times;
};

static void print_last(struct story *s)
{
    if (s->times == 0)
        return;
    (void) fprintf(s->c->out, "  %s  ", s->at);
    out_text(s->c->out, s->sentence);
    if (s->times > 1)
        (void) fprintf(s->c->out, " (%u times)", s->times);
    (void) fputc('\n', s->c->out);
    s->times = 0;
}

/* A new box under the same id has a line of its own. */
static void print_box(struct story *s, const struct json *event)
{
    const char *box = show_str(event, "box_id");

    if (str_is_empty(box) || strcmp(box, s->box) == 0)
        return;
    print_last(s);
    str_copy_cut(s->box, sizeof(s->box), box);
    (void) fputs("box ", s->c->out);
    out_text(s->c->out, box);
    (void) fputs(", profile ", s->c->out);
    out_text(s->c->out, show_str(event, "profile"));
    if (!str_is_empty(show_str(event, "thread_id"))) {
        (void) fprintf(s->c->out, ", generation %llu, of ",
                       (unsigned long long) show_u64(event, "generation"));
        out_text(s->c->out, show_str(event, "user_id"));
        (void) fputc('/', s->c->out);
        out_text(s->c->out, show_str(event, "thread_id"));
    }
    (void) fputc('\n', s->c->out);
}

static void add_event(struct story *s, const struct json *event)
{
    struct buf text;

    s->count++;
    buf_init(&text, 64 * 1024);
    if (cli_wants_json(s->c)) {
        json_print(event, &text);
        (void) fprintf(s->c->out, "%s\n", buf_str(&text));
    } else {
        print_box(s, event);
        put_sentence(event, &text);
        if (s->times > 0 && strncmp(s->sentence, buf_str(&text), sizeof(s->sentence) - 1) != 0)
            print_last(s);
        str_copy_cut(s->sentence, sizeof(s->sentence), buf_str(&text));
        str_copy_cut(s->at, sizeof(s->at), show_str(event, "at"));
        s->times++;
    }
    buf_fini(&text);
}

/* All events of one name, page by page. */
static int read_all(struct story *s, const char *prefix, const char *name)
{
    uint64_t since_ms = 0;
    uint64_t next = 0;
    int code;

    if (cli_duration_ms(&s->c->args, "since", &since_ms))
        since_ms = (uint64_t) time(NULL) * 1000 - since_ms;
    do {
        struct json_doc *doc;
        const struct json *events;
        struct buf target;

        buf_init(&target, TARGET_MAX);
        buf_printf(&target, "/v1/events?format=json&limit=%d&since=%llu&id=", PAGE,
                   (unsigned long long) next);
        cli_escape(&target, prefix);
        cli_escape(&target, name);
        if (since_ms > 0)
            buf_printf(&target, "&since_ms=%llu", (unsigned long long) since_ms);
        code = cli_fetch(s->c, "GET", buf_str(&target), &doc);
        buf_fini(&target);
        if (code != CLI_OK)
            return code;
        events = json_get(json_root(doc), "events");
        for (size_t i = 0; i < json_len(events); i++)
            add_event(s, json_at(events, i));
        if (!json_bool(json_get(json_root(doc), "complete")))
            (void) fprintf(s->c->err,
                           "sandpool: the database could not be read: older events are missing\n");
        next = show_u64(json_root(doc), "next");
        (void) json_doc_free(doc);
    } while (next > 0 && !ferror(s->c->out));
    return CLI_OK;
}

int cmd_why(struct cli *c)
{
    const char *name = c->args.operands[0];
    const char *user = cli_option(&c->args, "user");
    struct story s = {.c = c};
    char thread[160];
    int code;

    (void) snprintf(thread, sizeof(thread), "thread:%.128s/", user != NULL ? user : "default");
    if (user != NULL)
        code = read_all(&s, thread, name);
    else if (strchr(name, '/') != NULL && strncmp(name, "thread:", strlen("thread:")) != 0)
        code = read_all(&s, "thread:", name);
    else
        code = read_all(&s, "", name);
    if (code == CLI_OK && s.count == 0 && user == NULL && strpbrk(name, ":/") == NULL)
        code = read_all(&s, thread, name);
    print_last(&s);
    if (code == CLI_OK && s.count == 0) {
        struct sp_failure f = {.code = SP_NOT_FOUND};

        (void) snprintf(f.message, sizeof(f.message),
                        "the audit trail has nothing about '%.80s': no such sandbox or thread, or "
                        "it was too long ago (store.events_max)",
                        name);
        return cli_fail(c, &f);
    }
    return code;
}
