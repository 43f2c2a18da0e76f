/* about.h - what /v1/sandbox reports about the box: its system, its programs, its listening ports.
 * Nothing here runs a program: names are looked up, and files of the kernel are read. */
#ifndef AGENT_AIO_ABOUT_H
#define AGENT_AIO_ABOUT_H

#include "agent/core/env_table.h"
#include "agent/core/identity.h"

struct about {
    const struct identity *user;
    const char *workspace;
    const struct env_table *env; /* environment of commands: PATH, TZ */
};

/* Writes the members of the answer. Without `is_full`, ports and programs are left out. These need
 * a helper: reading the list of sockets can take the kernel about ten milliseconds, and the
 * directories in PATH are chosen by the user. */
void about_put(struct json_out *o, const struct about *about, bool is_full);

/* about_programs.c: the members "runtime" and "utils", for the programs in the directories of
 * `path` (as in $PATH). */
void about_put_programs(struct json_out *o, const char *path);

#endif
