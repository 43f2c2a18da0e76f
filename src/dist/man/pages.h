/* pages.h - what makes the manual pages: each from the table or the text that the program itself uses. */
#ifndef DIST_MAN_PAGES_H
#define DIST_MAN_PAGES_H

#include "base/buf.h"
#include "cli/cli.h"

/* sandpool(1) */
void man_cli(struct buf *out);
/* sandpool-<command>(1) */
void man_command(const struct cli_command *command, struct buf *out);
/* sandpool.yaml(5) */
void man_config(struct buf *out);
/* A program's page from what its --help prints. */
void man_program(const char *name, unsigned section, const char *help, struct buf *out);

#endif
