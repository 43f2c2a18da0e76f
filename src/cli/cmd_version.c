/* cmd_version.c - sandpool version. */
#include "cli/cli.h"
#include "sandpool/version.h"

int cmd_version(struct cli *c)
{
    struct json_doc *doc = NULL;
    char up[24];
    int code;

    if (!cli_wants_json(c))
        (void) fprintf(c->out, "sandpool  %s\n", SANDPOOL_VERSION);
    code = cli_call(c, "GET", "/v1/version", NULL, &doc);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        const struct json *v = json_root(doc);

        (void) fprintf(c->out, "sandpoold ");
        out_text(c->out, show_str(v, "version"));
        (void) fprintf(c->out, " (instance ");
        out_text(c->out, show_str(v, "instance"));
        (void) fprintf(c->out, ", pid %llu, up %s)\n", (unsigned long long) show_u64(v, "pid"),
                       show_age(v, "uptime_s", up));
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}
