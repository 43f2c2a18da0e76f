/* snapshot_file.h - sandpool snapshot export and import. */
#ifndef CLI_SNAPSHOT_FILE_H
#define CLI_SNAPSHOT_FILE_H

#include "cli/cli.h"

int snapshot_export(struct cli *c);
int snapshot_import(struct cli *c);

#endif
