/* records.c - a list in the order of their end, and a table by number that grows with it. */
#include "agent/process/records.h"

#include <stdlib.h>
#include <string.h>

#include "agent/process/process.h"
#include "base/mem.h"

enum { ROOM_FIRST = 256 };

void records_init(struct process_records *r)
{
    memset(r, 0, sizeof(*r));
    list_init(&r->list);
}

static void forget_oldest(struct process_records *r)
{
    struct process_record *one =
        container_of(list_pop_front(&r->list), struct process_record, link);

    map_remove(&r->by_id, &one->node);
    free(one);
}

void records_fini(struct process_records *r)
{
    while (!list_is_empty(&r->list))
        forget_oldest(r);
    if (r->room > 0)
        map_fini(&r->by_id);
    r->room = 0;
}

/* A box that runs few jobs pays for few. */
static void make_room(struct process_records *r)
{
    if (r->list.len < r->room)
        return;
    if (r->room > 0)
        map_fini(&r->by_id);
    r->room = r->room > 0 ? 2 * r->room : ROOM_FIRST;
    map_init(&r->by_id, r->room);
    for (struct list_node *n = list_first(&r->list); n != NULL; n = list_next(&r->list, n)) {
        struct process_record *one = container_of(n, struct process_record, link);

        memset(&one->node, 0, sizeof(one->node));
        map_insert(&r->by_id, &one->node, hash_u64(one->id));
    }
}

void records_add(struct process_records *r, const struct process *p)
{
    size_t command_len = strnlen(p->command, RECORD_COMMAND_MAX);
    size_t tag_len = p->tag != NULL ? strlen(p->tag) : 0;
    struct process_record *one;

    while (r->list.len >= RECORDS_MAX)
        forget_oldest(r);
    make_room(r);
    one = xcalloc(1, sizeof(*one) + command_len + tag_len + 2);
    one->id = p->id;
    one->started_ns = p->started_ns;
    one->ended_ns = p->ended_ns;
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
        one->bytes[i] = p->streams[i].output.end;
    one->pid = p->pid;
    one->outcome = (uint8_t) p->outcome;
    one->exit_code = (uint8_t) p->exit_code;
    one->signum = (uint8_t) p->signum;
    one->is_pty = p->is_pty;
    one->has_tag = p->tag != NULL;
    memcpy(one->text, p->command, command_len);
    if (tag_len > 0)
        memcpy(one->text + command_len + 1, p->tag, tag_len);
    list_push_back(&r->list, &one->link);
    map_insert(&r->by_id, &one->node, hash_u64(one->id));
}

static bool has_id(const struct map_node *n, const void *key)
{
    return container_of(n, struct process_record, node)->id == *(const uint64_t *) key;
}

const struct process_record *records_find(const struct process_records *r, uint64_t id)
{
    struct map_node *n = r->room > 0 ? map_find(&r->by_id, hash_u64(id), has_id, &id) : NULL;

    return n != NULL ? container_of(n, struct process_record, node) : NULL;
}

const char *record_command(const struct process_record *r)
{
    return r->text;
}

const char *record_tag(const struct process_record *r)
{
    return r->has_tag ? r->text + strlen(r->text) + 1 : NULL;
}
