/* records.h - how jobs ended whose output is not kept any more. A record is small, so that the outcome of
 * a job is known as long as the box lives; the oldest is forgotten when there are RECORDS_MAX. */
#ifndef AGENT_PROCESS_RECORDS_H
#define AGENT_PROCESS_RECORDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/map.h"

enum {
    RECORDS_MAX = 65536,
    RECORD_COMMAND_MAX = 64, /* bytes of the command that are kept */
};

struct process;

struct process_record {
    struct list_node link;
    struct map_node node;
    uint64_t id;
    uint64_t started_ns;
    uint64_t ended_ns;
    uint64_t bytes[2]; /* of each stream */
    pid_t pid;
    uint8_t outcome;
    uint8_t exit_code;
    uint8_t signum;
    bool is_pty;
    bool has_tag;
    char text[]; /* the start of the command, NUL, the tag, NUL */
};

struct process_records {
    struct list list; /* oldest first */
    struct map by_id;
    size_t room; /* that by_id was made for; 0: not made yet */
};

void records_init(struct process_records *r);
void records_fini(struct process_records *r);
/* `p` has ended. */
void records_add(struct process_records *r, const struct process *p);
/* NULL if there is none (any more). */
const struct process_record *records_find(const struct process_records *r, uint64_t id);
const char *record_command(const struct process_record *r);
/* May be NULL. */
const char *record_tag(const struct process_record *r);

#endif
