/* internal.h - what the files of the `remote` backend share.
 *
 *   remote.c  open, close, the vtable        create.c  one box from nothing, lost answers found again
 *   setup.c   address, key, time limits      body.c    what a create sends to the provisioner
 *   name.c    ids and refs                   destroy.c deleting until it is gone
 *   call.c    one call and its meaning       check.c   is_alive
 *   answer.c  a box as it is described       list.c    which are there
 *   table.c   boxes in memory                update.c  late binding
 *   examine.c findings for `sandpool doctor` gone.c    names that may still lead to a deleted box
 *   discover.c a box of this public id */
#ifndef REMOTE_INTERNAL_H
#define REMOTE_INTERNAL_H

#include "backend/boxes.h"
#include "backend/call.h"
#include "backends/remote/remote.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"

enum {
    REMOTE_NAME_MAX = 63,
    REMOTE_UID_MAX = 64,
    REMOTE_ANSWER_MAX = 256 * 1024,
    REMOTE_LIST_MAX = 32 * 1024 * 1024,
    REMOTE_BODY_MAX = 64 * 1024,
    REMOTE_MOUNTS_MAX = 10,
};

static_assert(REMOTE_NAME_MAX + 1 + REMOTE_UID_MAX <= BACKEND_REF_MAX, "a ref has room for both");

#define REMOTE_REMOVE_NS (60 * NS_PER_S) /* then a failure is reported to those who wait */
#define REMOTE_AWAY_NS (2 * NS_PER_S)
#define REMOTE_CLOSE_NS (5 * NS_PER_S) /* what is under way may take this long at the end */

struct remote;

/* --- one call (call.c) --- */

/* What an answer, or none, means for the work that was asked for. */
enum remote_word {
    REMOTE_DONE,      /* 2xx */
    REMOTE_MISSING,   /* 404 */
    REMOTE_BUSY,      /* not now: still terminating, too many requests */
    REMOTE_REFUSED,   /* nothing was done, and asking again will not help */
    REMOTE_UNSENT,    /* nobody was there to hear it */
    REMOTE_FAILED,    /* the provisioner met an error: it may be done, or half done */
    REMOTE_NO_ANSWER, /* it may be done */
    REMOTE_WORD_COUNT
};

/* On a zeroed or finished object. */
void remote_call_init(struct remote *r, struct call *c, const char *method, const char *path);
void remote_call_start(struct call *c, uint64_t limit_ns, void (*on_done)(struct op *));
/* With the provisioner's own words in `err` unless it is REMOTE_DONE. */
enum remote_word remote_call_word(const struct call *c, struct err *err);
/* NULL when the answer is no JSON. */
MUST_CHECK struct json_doc *remote_call_json(const struct call *c, struct err *err);
/* For /api/sandboxes/{name}{rest}. */
void remote_call_name(struct remote *r, struct call *c, const char *method, const char *name,
                      const char *rest);

/* A wait between two tries; longer each time. */
struct remote_pause {
    struct op op;
    uint64_t backoff_ns;
};

void remote_pause_start(struct remote *r, struct remote_pause *p, void (*on_done)(struct op *));

/* --- a box as the provisioner describes it (answer.c) --- */

enum remote_status {
    REMOTE_STATUS_PENDING,
    REMOTE_STATUS_RUNNING,
    REMOTE_STATUS_SUCCEEDED,
    REMOTE_STATUS_FAILED,
    REMOTE_STATUS_UNKNOWN,
    REMOTE_STATUS_NOT_FOUND, /* its Service is there, its Pod is not */
    REMOTE_STATUS_TERMINATING,
    REMOTE_STATUS_COUNT
};

struct remote_seen {
    char name[REMOTE_NAME_MAX + 1];
    char uid[REMOTE_UID_MAX + 1]; /* container_id; "": not given */
    char url[BACKEND_URL_MAX + 1];
    enum remote_status status;
    uint64_t sessions; /* max_shell_sessions; 0: not given */
};

const char *remote_status_name(enum remote_status s);
/* Pending, Running, and Unknown: it may run. */
bool remote_status_may_run(enum remote_status s);
/* SP_PROTOCOL when it is not as it should be; ret->name is filled if at all possible. */
MUST_CHECK int remote_read_seen(const struct json *v, struct remote_seen *ret, struct err *err);
/* The answer to a call about one box, which must be the one that was asked for. */
MUST_CHECK int remote_call_seen(const struct call *c, const char *name, struct remote_seen *ret,
                                struct err *err);

/* --- ids (name.c) --- */

/* For an id that the provisioner can turn into names of its own. */
bool remote_name_is_good(const char *name);
/* What a box with these labels is created as. */
void remote_name_of(const struct remote *r, const struct backend_labels *l,
                    char ret[REMOTE_NAME_MAX + 1]);
/* A blank box of this instance. */
bool remote_name_is_ours(const struct remote *r, const char *name, uint64_t *ret_box_id);
/* A blank box of any instance. */
bool remote_name_is_blank(const char *name);
void remote_put_ref(char ret[BACKEND_REF_MAX + 1], const char *name, const char *uid);
/* False when it is no ref of this backend. */
MUST_CHECK bool remote_read_ref(const char *ref, char ret_name[REMOTE_NAME_MAX + 1],
                                char ret_uid[REMOTE_UID_MAX + 1]);
/* By its ref, else by what it would have been created as. */
void remote_find_name(const struct remote *r, const struct backend_box *box,
                      char ret_name[REMOTE_NAME_MAX + 1], char ret_uid[REMOTE_UID_MAX + 1]);
/* Both are known and differ. */
bool remote_is_other(const char *uid_a, const char *uid_b);

/* --- boxes in memory (table.c) --- */

struct remote_box {
    struct box_entry entry;
    struct remote *remote;
    char name[REMOTE_NAME_MAX + 1];
    char uid[REMOTE_UID_MAX + 1];
    struct backend_box box; /* while it is made or runs */
    bool was_never_made;    /* the provisioner has refused it, or does not know it */
    bool is_stray;          /* dead, of our name, and nobody has asked for its end */
    uint64_t listing;       /* that has shown the stray */
};

struct remote_box *remote_box_find(struct remote *r, uint64_t id);
struct remote_box *remote_box_named(struct remote *r, const char *name);
struct remote_box *remote_box_add(struct remote *r, uint64_t id, const char *name,
                                  enum box_state state);
void remote_box_drop(struct remote_box *b);

/* --- boxes that were deleted a short while ago (gone.c) --- */

struct remote_gone {
    struct map_node node;
    struct list_node link;
    uint64_t until_ns;
    char name[REMOTE_NAME_MAX + 1];
    char uid[REMOTE_UID_MAX + 1];
    char life[BACKEND_LIFE_MAX + 1];
};

void remote_gone_init(struct remote *r);
void remote_gone_fini(struct remote *r);
void remote_gone_note(struct remote *r, const struct remote_box *b);
void remote_gone_forget(struct remote *r, const char *name);
bool remote_may_return(const char *ref);
void remote_recall(struct backend *b, const char *ref, const char *life, uint64_t ago_ns);
bool remote_is_gone(struct backend *b, const char *ref, const char *life);
/* NULL: what the name leads to need not be doubted. */
const struct remote_gone *remote_gone_find(struct remote *r, const char *name);

/* --- the backend --- */

struct remote {
    struct backend base;
    struct loop *loop;
    struct httpc *http;
    char instance[BACKEND_LABEL_MAX + 1];
    char prefix[16];                       /* "sp-1a2b3c4d-" */
    char url[CONFIG_PATH_MAX + 1];         /* without a slash at its end */
    char key_header[CONFIG_PATH_MAX + 16]; /* "": none; never logged */
    const char *key;                       /* within the header */
    char profile[CONFIG_NAME_MAX + 1];     /* that we were opened for: its time limits count */
    uint64_t create_ns, destroy_ns, get_ns, list_ns;

    struct closing closing;
    struct boxes boxes;
    struct map gone; /* struct remote_gone */
    struct list gone_list;
    uint64_t listing;     /* counts them */
    bool has_no_presence; /* an older provisioner: asked once */
};

static inline struct remote *remote_of(struct backend *b)
{
    return container_of(b, struct remote, base);
}

static inline struct remote *remote_of_call(const struct call *c)
{
    return container_of(c->closing, struct remote, closing);
}

/* setup.c */
MUST_CHECK int remote_setup(struct remote *r, const struct config *c,
                            const struct config_profile *p, struct err *err);

/* After a reload: a new key, new time limits. */
void remote_prepare(struct backend *b, const struct config_profile *p);

/* body.c: the body of POST /api/sandboxes. */
MUST_CHECK int remote_put_body(const struct backend_create *c, const char *name, struct buf *out,
                               struct err *err);

/* destroy.c: deletes whatever is there of a box; those in b->entry.removers are notified. */
void remote_remove_box(struct remote_box *b);

void remote_create(struct backend *b, struct backend_create *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
void remote_destroy(struct backend *b, struct backend_destroy *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *));
void remote_is_alive(struct backend *b, struct backend_check *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *));
void remote_discover(struct backend *b, struct backend_discover *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *));
void remote_list(struct backend *b, struct backend_list *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
void remote_update(struct backend *b, struct backend_update *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
void remote_examine(struct backend *b, struct backend_exam *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *));

#endif
