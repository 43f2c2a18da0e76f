/* top_keys.c - what a key does to the view of `sandpool top`, and what it asks to be done. */
#include <string.h>

#include "base/str.h"
#include "cli/top.h"

/* --- moving --- */

static void select_box(struct top_view *v, const struct top *t, size_t at)
{
    if (v->count == 0)
        return;
    v->selected = MIN_OF(at, v->count - 1);
    str_copy_cut(v->key, sizeof(v->key), t->boxes[v->order[v->selected]].key);
}

static void select_profile(struct top_view *v, const struct top *t, size_t at)
{
    if (t->profile_count == 0)
        return;
    v->profile = (unsigned) MIN_OF(at, (size_t) t->profile_count - 1);
    str_copy_cut(v->profile_name, sizeof(v->profile_name), t->profiles[v->profile].name);
}

/* Where the key leads from `at`; SIZE_MAX is behind the last. */
static bool moves(unsigned key, size_t page, size_t at, size_t *ret)
{
    if (key == 'k' || key == TOP_KEY_UP)
        *ret = at > 0 ? at - 1 : 0;
    else if (key == 'j' || key == TOP_KEY_DOWN)
        *ret = at + 1;
    else if (key == TOP_KEY_PAGE_UP)
        *ret = at > page ? at - page : 0;
    else if (key == TOP_KEY_PAGE_DOWN)
        *ret = at + page;
    else if (key == 'g' || key == TOP_KEY_HOME)
        *ret = 0;
    else if (key == 'G' || key == TOP_KEY_END)
        *ret = SIZE_MAX / 2;
    else
        return false;
    return true;
}

static bool move_key(struct top_view *v, const struct top *t, unsigned key)
{
    size_t page = MAX_OF(v->page, 1U);
    size_t to;

    if (v->mode == TOP_DETAILS) {
        if (!moves(key, page, v->first_line, &to))
            return false;
        v->first_line = to; /* drawing knows the end */
    } else if (v->pane == TOP_PROFILES) {
        if (!moves(key, page, v->profile, &to))
            return false;
        select_profile(v, t, to);
    } else {
        if (!moves(key, page, v->selected, &to))
            return false;
        select_box(v, t, to);
    }
    return true;
}

/* --- what is asked for --- */

static void say(struct top_view *v, const char *text)
{
    str_copy_cut(v->message, sizeof(v->message), text);
}

/* The selected box becomes the target. */
static const struct top_box *aim(struct top_view *v, const struct top *t)
{
    const struct top_box *b;

    if (v->count == 0) {
        say(v, "There is no box here.");
        return NULL;
    }
    b = &t->boxes[v->order[v->selected]];
    str_copy_cut(v->target, sizeof(v->target), b->name);
    str_copy_cut(v->target_key, sizeof(v->target_key), b->key);
    v->target_generation = b->generation;
    return b;
}

static enum top_action inspect(struct top_view *v, const struct top *t)
{
    if (v->pane == TOP_PROFILES || aim(v, t) == NULL)
        return TOP_NOTHING;
    v->mode = TOP_DETAILS;
    v->first_line = 0;
    buf_reset(&v->details);
    return TOP_INSPECT;
}

static enum top_action open_shell(struct top_view *v, const struct top *t)
{
    const struct top_box *b = v->mode == TOP_DETAILS || v->pane == TOP_BOXES ? aim(v, t) : NULL;

    if (b == NULL)
        return TOP_NOTHING;
    if (!b->has_owner) {
        say(v, "Nobody owns this box: a shell is for boxes that are leased.");
        return TOP_NOTHING;
    }
    return TOP_SHELL;
}

static void ask_destroy(struct top_view *v, const struct top *t)
{
    if (v->pane == TOP_PROFILES && v->mode == TOP_LIST) {
        say(v, "Select a box first: Tab goes to the list of boxes.");
    } else if (aim(v, t) != NULL) {
        v->asked = TOP_DESTROY;
        v->mode = TOP_CONFIRM;
    }
}

/* The selected profile, or that of the selected box. */
static void ask_pause(struct top_view *v, const struct top *t)
{
    const char *name = v->profile_name;

    if (v->pane == TOP_BOXES && v->count > 0)
        name = t->boxes[v->order[v->selected]].profile;
    for (unsigned i = 0; i < t->profile_count; i++) {
        const struct top_profile *p = &t->profiles[i];

        if (strcmp(p->name, name) != 0)
            continue;
        if (str_is_empty(p->mode)) { /* it would pause all of them */
            say(v, "This daemon cannot pause one profile.");
            return;
        }
        str_copy_cut(v->target, sizeof(v->target), p->name);
        v->asked = strcmp(p->mode, "running") == 0 ? TOP_PAUSE : TOP_RESUME;
        v->mode = TOP_CONFIRM;
        return;
    }
    say(v, "There is no such profile any more.");
}

/* --- modes --- */

static enum top_action confirm_key(struct top_view *v, unsigned key)
{
    if (key != 'y' && key != 'Y') {
        v->mode = TOP_LIST;
        say(v, "Nothing was done.");
        return TOP_NOTHING;
    }
    v->mode = TOP_LIST;
    return v->asked;
}

static void filter_key(struct top_view *v, unsigned key)
{
    size_t len = strlen(v->filter);

    if (key == TOP_KEY_ENTER) {
        v->mode = TOP_LIST;
    } else if (key == TOP_KEY_ESCAPE) {
        str_copy_cut(v->filter, sizeof(v->filter), v->filter_before);
        v->mode = TOP_LIST;
    } else if (key == TOP_KEY_BACKSPACE && len > 0) {
        v->filter[len - 1] = '\0';
    } else if (key >= ' ' && key < 127 && len + 1 < sizeof(v->filter)) {
        v->filter[len] = (char) key;
        v->filter[len + 1] = '\0';
    }
}

static void sort_key(struct top_view *v, bool is_reversal)
{
    if (is_reversal)
        v->is_reversed = !v->is_reversed;
    else
        v->sort = (v->sort + 1) % TOP_SORT_COUNT;
    v->first = 0;
}

static void begin_filter(struct top_view *v)
{
    str_copy_cut(v->filter_before, sizeof(v->filter_before), v->filter);
    v->filter[0] = '\0';
    v->pane = TOP_BOXES;
    v->mode = TOP_FILTER;
}

static enum top_action list_key(struct top_view *v, const struct top *t, unsigned key)
{
    switch (key) {
    case 'q':
        return TOP_QUIT;
    case TOP_KEY_ENTER:
        return inspect(v, t);
    case 's':
        return open_shell(v, t);
    case 'd':
        ask_destroy(v, t);
        break;
    case 'p':
        ask_pause(v, t);
        break;
    case 'o':
    case 'O':
        sort_key(v, key == 'O');
        break;
    case '/':
        begin_filter(v);
        break;
    case '?':
    case 'h':
        v->mode = TOP_HELP;
        break;
    case TOP_KEY_TAB:
        v->pane = v->pane == TOP_BOXES ? TOP_PROFILES : TOP_BOXES;
        break;
    case TOP_KEY_ESCAPE:
        v->filter[0] = '\0';
        break;
    case ' ':
    case 'r':
        return TOP_REFRESH;
    default:
        break;
    }
    return TOP_NOTHING;
}

static enum top_action details_key(struct top_view *v, const struct top *t, unsigned key)
{
    if (key == 's')
        return open_shell(v, t);
    if (key == 'd')
        ask_destroy(v, t);
    else if (key == 'q' || key == TOP_KEY_ESCAPE || key == TOP_KEY_ENTER)
        v->mode = TOP_LIST;
    return TOP_NOTHING;
}

enum top_action top_view_key(struct top_view *v, struct top *t, unsigned key)
{
    enum top_action action = TOP_NOTHING;

    v->message[0] = '\0';
    if (v->mode == TOP_CONFIRM)
        return confirm_key(v, key);
    if (v->mode == TOP_FILTER)
        filter_key(v, key);
    else if (v->mode == TOP_HELP)
        v->mode = TOP_LIST;
    else if (!move_key(v, t, key))
        action = v->mode == TOP_DETAILS ? details_key(v, t, key) : list_key(v, t, key);
    top_view_update(v, t);
    return action;
}
