/* ids.c - which user ids of this machine are ours. Daemons with different state directories agree by a
 * file that lasts as long as boxes can: until the machine starts anew. A line of it is "FIRST END
 * STATE_DIR": that daemon's boxes have the ids from FIRST up to END. The file can be wrong about boxes whose state
 * directory was moved or has lost its database: so the processes of the machine are asked as well, once per start. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

/* --- ids of living processes --- */

static void add_id(struct oci_living *l, uint64_t id)
{
    if (l->count > 0 && l->ids[l->count - 1] == id)
        return;
    if (l->count == l->room) {
        l->room = l->room * 2 + 64;
        l->ids = xrealloc(l->ids, l->room * sizeof(l->ids[0]));
    }
    l->ids[l->count++] = id;
}

/* "Uid:\t1000\t1000\t1000\t1000" is the ninth line or so; the name above it has no line breaks. */
static void add_process(struct oci_living *l, uint64_t from, const char *pid)
{
    char path[32];
    char text[1024];
    unsigned long long ids[4];
    const char *at;

    (void) snprintf(path, sizeof(path), "/proc/%.12s/status", pid);
    (void) file_read_start(AT_FDCWD, path, text, sizeof(text)); /* "": it has ended */
    at = strstr(text, "\nUid:");
    if (at == NULL ||
        sscanf(at, "\nUid: %llu %llu %llu %llu", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
        return; /* it has ended */
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        if (ids[i] >= from)
            add_id(l, ids[i]);
}

void oci_living_read(struct oci_living *l, uint64_t from)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;

    l->count = 0;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            add_process(l, from, entry->d_name);
    if (dir != NULL)
        (void) closedir(dir); /* only read */
}

void oci_living_fini(struct oci_living *l)
{
    free(l->ids);
    *l = (struct oci_living){0};
}

/* The end of the range after a living process in there; 0: there is none. */
static uint64_t living_until(const struct oci_living *l, uint64_t first, uint64_t end)
{
    uint64_t until = 0;

    for (size_t i = 0; i < l->count; i++)
        if (l->ids[i] >= first && l->ids[i] < end)
            until = MAX_OF(until, first + ((l->ids[i] - first) / OCI_ID_COUNT + 1) * OCI_ID_COUNT);
    return until;
}

/* --- the file --- */

#define CLAIMS_PATH "/run/sandpool-ids"
#define CLAIMS_MAX 256
#define LINE_MAX_LEN (OCI_PATH_MAX + 48)
#define ID_END 0xffff0000ULL /* no range goes beyond: the last ids mean "nobody" and "no id" */
#define SPARE_SLOTS 16U      /* boxes that only try a runtime */
#define USUAL_SLOTS 2048U

struct claim {
    uint64_t first;
    uint64_t end;
    char state_dir[OCI_PATH_MAX];
};

struct claims {
    struct claim all[CLAIMS_MAX];
    size_t count;
    const struct oci_living *living;
};

static bool has_boxes(const char *state_dir)
{
    char path[OCI_PATH_MAX + 16];
    struct dirent *entry;
    bool has_one = false;
    DIR *dir;

    (void) snprintf(path, sizeof(path), "%s/oci/boxes", state_dir);
    dir = opendir(path);
    while (dir != NULL && !has_one && (entry = readdir(dir)) != NULL)
        has_one = entry->d_name[0] != '.';
    if (dir != NULL)
        (void) closedir(dir); /* only read */
    return has_one;
}

/* The daemon there has signed its lock. Another process with its number only wastes a range. */
static bool has_daemon(const char *state_dir)
{
    char path[OCI_PATH_MAX + 16];
    int pid = 0;
    FILE *f;

    (void) snprintf(path, sizeof(path), "%s/lock", state_dir);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    if (fscanf(f, "%d", &pid) != 1)
        pid = 0;
    (void) fclose(f); /* only read */
    return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

/* Those of others that still hold, and ours into *own. */
static void read_claims(FILE *f, const char *state_dir, struct claims *c, struct claim *own)
{
    char line[LINE_MAX_LEN];
    struct claim one;

    while (fgets(line, sizeof(line), f) != NULL) {
        unsigned long long first;
        unsigned long long end;
        int at = 0;

        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%llu %llu %n", &first, &end, &at) != 2 || at == 0 ||
            !str_copy(one.state_dir, sizeof(one.state_dir), line + at))
            continue;
        one.first = first;
        one.end = end;
        if (strcmp(one.state_dir, state_dir) == 0)
            *own = one;
        else if (c->count < CLAIMS_MAX && (has_daemon(one.state_dir) || has_boxes(one.state_dir) ||
                                           living_until(c->living, first, end) != 0))
            c->all[c->count++] = one;
    }
}

/* The end of a claim of somebody else in there; 0: it is free. */
static uint64_t taken_until(const struct claims *c, uint64_t first, uint64_t end)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->all[i].first < end && first < c->all[i].end)
            return c->all[i].end;
    return 0;
}

static bool find_room(const struct claims *c, uint64_t from, uint64_t slots, struct claim *own)
{
    uint64_t first = from;
    uint64_t until;

    for (;;) {
        uint64_t end = first + slots * OCI_ID_COUNT;

        if (end > ID_END)
            return false;
        until = MAX_OF(taken_until(c, first, end), living_until(c->living, first, end));
        if (until == 0) {
            own->first = first;
            own->end = end;
            return true;
        }
        first = until;
    }
}

static bool choose(const struct claims *c, uint64_t from, uint64_t boxes, struct claim *own)
{
    uint64_t need = boxes + SPARE_SLOTS;
    uint64_t usual = MAX_OF(2 * boxes, USUAL_SLOTS);

    /* The same as before, so that boxes that run have ids of ours. Those of boxes that are not known are left out when
     * ids are taken (table.c). */
    if (own->end > own->first && own->first >= from &&
        (own->end - own->first) / OCI_ID_COUNT >= need && taken_until(c, own->first, own->end) == 0)
        return true;
    if (own->first >= from && find_room(c, own->first, usual, own))
        return true;
    return find_room(c, from, usual, own) || find_room(c, from, need, own) ||
           find_room(c, from, boxes, own);
}

static int write_claims(FILE *f, const struct claims *c, const struct claim *own, struct err *err)
{
    rewind(f);
    (void) fprintf(f, "%llu %llu %s\n", (unsigned long long) own->first,
                   (unsigned long long) own->end, own->state_dir);
    for (size_t i = 0; i < c->count; i++)
        (void) fprintf(f, "%llu %llu %s\n", (unsigned long long) c->all[i].first,
                       (unsigned long long) c->all[i].end, c->all[i].state_dir);
    if (fflush(f) != 0 || ferror(f) || ftruncate(fileno(f), ftell(f)) != 0)
        return err_sys(err, SP_IO, errno, "write '%s'", CLAIMS_PATH);
    return SP_OK;
}

static int claim(FILE *f, uint64_t from, uint64_t boxes, const struct oci_living *living,
                 struct claim *own, struct err *err)
{
    struct claims *c = xcalloc(1, sizeof(*c));
    char state_dir[OCI_PATH_MAX];
    int rc;

    c->living = living;
    str_copy_cut(state_dir, sizeof(state_dir), own->state_dir);
    read_claims(f, state_dir, c, own);
    if (choose(c, from, boxes, own))
        rc = write_claims(f, c, own, err);
    else
        rc = err_set(err, SP_CONFIG,
                     "%zu other daemons of this machine have the user ids from %llu on (%s): lower "
                     "oci.id_base or pool.max_boxes",
                     c->count, (unsigned long long) from, CLAIMS_PATH);
    free(c);
    return rc;
}

int oci_claim_ids(const char *state_dir, uint64_t from, uint64_t boxes,
                  const struct oci_living *living, uint64_t *ret_first, uint32_t *ret_slots,
                  struct err *err)
{
    int fd = open(CLAIMS_PATH, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "r+") : NULL;
    struct claim own = {0};
    int rc = SP_OK;

    if (f == NULL || flock(fd, LOCK_EX) != 0) { /* held for moments only */
        log_warn("oci.ids_not_claimed", LF_STR("file", CLAIMS_PATH),
                 LF_STR("reason", strerror(errno)));
        own.first = from;
        own.end = ID_END;
    } else {
        str_copy_cut(own.state_dir, sizeof(own.state_dir), state_dir);
        rc = claim(f, from, boxes, living, &own, err);
    }
    if (f != NULL)
        (void) fclose(f); /* written and checked above */
    else if (fd >= 0)
        (void) close(fd); /* nothing was written */
    *ret_first = own.first;
    *ret_slots = (uint32_t) ((own.end - own.first) / OCI_ID_COUNT);
    return rc;
}
