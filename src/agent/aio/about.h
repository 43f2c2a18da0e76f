/* about.h - what /v1/sandbox reports about the box: its system, its programs, the ports that are listened on.
 * Nothing here runs a program: names are looked up and files of the kernel read. */
#ifndef AGENT_AIO_ABOUT_H
#define AGENT_AIO_ABOUT_H

#include "agent/core/env_table.h"
#include "agent/core/identity.h"

struct about {
    const struct identity *user;
    const char *workspace;
    const struct env_table *env; /* of commands: PATH, TZ */
};

/* The members of the answer. Not `is_full`: without the ports and programs, which take a helper: the list
 * of sockets can take the kernel some ten milliseconds, and PATH is somebody else's choice. */
void about_put(struct json_out *o, const struct about *about, bool is_full);

/* about_programs.c: the members "runtime" and "utils", of what the directories of `path` (as in $PATH)
 * hold. */
void about_put_programs(struct json_out *o, const char *path);

#endif
