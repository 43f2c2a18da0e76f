/* prefetch.c - the images of profiles are fetched when the profiles become known, so that no caller waits
 * for a pull. What fails because the engine is away is tried when it is back; any other failure is met
 * again by the next create. */
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/mem.h"
#include "base/str.h"

/* One per profile, for as long as the backend is open. */
struct want {
    struct list_node link;
    struct waiter waiter;
    struct docker *docker;
    struct docker_pull *pull; /* NULL: not under way */
    struct docker_source source;
    bool is_missing; /* the engine could not be asked */
    char profile[CONFIG_NAME_MAX + 1];
};

static void on_image(struct waiter *waiter)
{
    struct want *w = container_of(waiter, struct want, waiter);
    struct docker_image image;
    struct err err;
    int rc = docker_image_result(w->pull, &image, &err);

    w->pull = NULL;
    w->is_missing = rc == SP_BACKEND_UNAVAILABLE || rc == SP_TIMEOUT || rc == SP_PROTOCOL;
}

static void fetch(struct want *w)
{
    w->is_missing = false;
    w->waiter.resume = on_image;
    w->pull = docker_image_get(w->docker, &w->source, &w->waiter);
}

void docker_prepare(struct backend *backend, const struct config_profile *profile)
{
    struct docker *d = docker_of(backend);
    struct docker_source source;
    struct want *w = NULL;

    docker_adopt_prepare(d, profile);
    docker_events_renew(d);
    for (struct list_node *n = list_first(&d->wants); n != NULL; n = list_next(&d->wants, n)) {
        w = container_of(n, struct want, link);
        if (strcmp(w->profile, profile->name) == 0)
            break;
        w = NULL;
    }
    docker_source_of(profile, &source);
    if (w != NULL && docker_source_equal(&w->source, &source))
        return;
    if (w == NULL) {
        w = xcalloc(1, sizeof(*w));
        w->docker = d;
        str_copy_cut(w->profile, sizeof(w->profile), profile->name);
        list_push_back(&d->wants, &w->link);
    }
    if (w->pull != NULL)
        docker_image_leave(w->pull, &w->waiter);
    w->source = source;
    fetch(w);
}

void docker_prefetch_again(struct docker *d)
{
    for (struct list_node *n = list_first(&d->wants); n != NULL; n = list_next(&d->wants, n)) {
        struct want *w = container_of(n, struct want, link);

        if (w->is_missing && w->pull == NULL)
            fetch(w);
    }
}

void docker_prefetch_free(struct docker *d)
{
    while (!list_is_empty(&d->wants))
        free(container_of(list_pop_front(&d->wants), struct want, link));
}
