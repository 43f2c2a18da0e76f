/* cmd_reconcile.c - sandpool reconcile. A backend that could not be asked makes it a failure. */
#include "cli/cli.h"

int cmd_reconcile(struct cli *c)
{
    struct json_doc *doc;
    uint64_t failed;
    int code = cli_call(c, "POST", "/v1/pool/reconcile", NULL, &doc);

    if (code != CLI_OK)
        return code;
    failed = show_u64(json_root(doc), "backends_failed");
    if (!cli_wants_json(c))
        (void) fprintf(c->out, "boxes seen: %llu, backends asked: %llu\n",
                       (unsigned long long) show_u64(json_root(doc), "boxes_seen"),
                       (unsigned long long) show_u64(json_root(doc), "backends_listed"));
    if (failed > 0)
        (void) fprintf(c->err,
                       "sandpool: backends that could not be asked: %llu; see 'sandpool pool'\n",
                       (unsigned long long) failed);
    (void) json_doc_free(doc);
    return failed > 0 ? CLI_FAILED : CLI_OK;
}
