/* deed.c - see deed.h. */
#include "front/deed.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/holders.h"

void front_note_deed(struct engine *e, const struct http_exchange *ex, struct box_id box,
                     const char *verb)
{
    const struct http_peer *peer = http_peer(ex);
    size_t len = strspn(verb, "abcdefghijklmnopqrstuvwxyz");
    char from[ENGINE_FROM_MAX + 1];
    char word[ENGINE_VERB_MAX + 1];

    if (!str_copy_n(word, sizeof(word), verb, len))
        word[0] = '\0'; /* none of ours is as long */
    if (peer->is_tcp)
        str_copy_cut(from, sizeof(from), peer->address);
    else
        (void) snprintf(from, sizeof(from), "pid %d", (int) peer->pid);
    engine_note_deed(e, box, word, from);
}
