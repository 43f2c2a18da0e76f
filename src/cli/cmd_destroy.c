/* cmd_destroy.c - sandpool destroy: some boxes, or all. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"

enum { PAGE = 500 };

static int destroy(struct cli *c, const char *name)
{
    const char *separator = "?";
    struct json_doc *doc;
    struct cli_sandbox_call call = {.method = "DELETE", .name = name};
    struct buf query;
    uint64_t generation;
    int code;

    buf_init(&query, 256);
    if (cli_flag(&c->args, "quick")) {
        buf_puts(&query, "?quick=1");
        separator = "&";
    }
    if (cli_number(&c->args, "generation", &generation))
        buf_printf(&query, "%sgeneration=%llu", separator, (unsigned long long) generation);
    call.suffix = buf_str(&query);
    code = cli_call_sandbox(c, &call, &doc);
    buf_fini(&query);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c))
        show_ended(json_root(doc), name, c->out);
    (void) json_doc_free(doc);
    return CLI_OK;
}

/* --- all --- */

struct names {
    char (*list)[CLI_ID_MAX];
    size_t count;
    size_t cap;
};

/* Blank boxes are the pool's own business: it would make new ones. */
static void add(struct names *n, const struct json *box)
{
    const char *id = show_str(box, "sandbox_id");

    if (str_is_empty(id))
        return;
    if (n->count == n->cap) {
        n->cap = MAX_OF(2 * n->cap, (size_t) 64);
        n->list = xrealloc(n->list, n->cap * sizeof(*n->list));
    }
    str_copy_cut(n->list[n->count], CLI_ID_MAX, id);
    n->count++;
}

static int find_all(struct cli *c, struct names *n)
{
    char cursor[128] = "";
    int code = CLI_OK;
    bool has_more = true;

    while (code == CLI_OK && has_more) {
        struct json_doc *doc;
        struct buf target;
        const struct json *boxes;

        buf_init(&target, 1024);
        buf_printf(&target, "/v1/sandboxes?limit=%d", PAGE);
        if (!str_is_empty(cursor)) {
            buf_puts(&target, "&cursor=");
            cli_escape(&target, cursor);
        }
        code = cli_fetch(c, "GET", buf_str(&target), &doc);
        buf_fini(&target);
        if (code != CLI_OK)
            return code;
        boxes = json_get(json_root(doc), "sandboxes");
        for (size_t i = 0; i < json_len(boxes); i++)
            add(n, json_at(boxes, i));
        str_copy_cut(cursor, sizeof(cursor), show_str(json_root(doc), "next_cursor"));
        has_more = !str_is_empty(cursor) && json_len(boxes) > 0;
        (void) json_doc_free(doc);
    }
    return code;
}

static bool is_confirmed(struct cli *c, size_t count)
{
    char answer[16] = "";

    if (cli_flag(&c->args, "yes"))
        return true;
    (void) fprintf(c->err, "Destroy %zu sandboxes with all that is in them? [y/N] ", count);
    (void) fflush(c->err);
    return fgets(answer, sizeof(answer), stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}

static int destroy_all(struct cli *c)
{
    struct names n = {.list = NULL};
    int code;

    if (c->args.operand_count > 0)
        return cli_fail_usage(c, "give ids or --all, not both");
    if (!cli_flag(&c->args, "yes") && isatty(STDIN_FILENO) == 0)
        return cli_fail_usage(c, "--all asks first, and there is no terminal: add --yes");
    code = find_all(c, &n);
    if (code == CLI_OK && n.count == 0)
        (void) fprintf(c->err, "There are none.\n");
    else if (code == CLI_OK && !is_confirmed(c, n.count))
        code = CLI_FAILED;
    else if (code == CLI_OK)
        for (size_t i = 0; i < n.count; i++) {
            int r = destroy(c, n.list[i]);

            code = r != CLI_OK && r != CLI_NOT_FOUND ? r : code; /* the rest goes all the same */
        }
    free(n.list);
    return code;
}

int cmd_destroy(struct cli *c)
{
    int code = CLI_OK;

    if (cli_flag(&c->args, "all"))
        return destroy_all(c);
    if (c->args.operand_count == 0)
        return cli_fail_usage(c, "ID is missing, or --all");
    for (unsigned i = 0; i < c->args.operand_count; i++) {
        int r = destroy(c, c->args.operands[i]);

        code = r != CLI_OK ? r : code;
    }
    return code;
}
