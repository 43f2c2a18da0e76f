/* validate_auto.c - what `profile: auto` chooses from. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/validate.h"

static bool is_profile(const struct config *c, const char *word)
{
    return config_find_profile(c, word) != NULL;
}

/* Prices in different currencies cannot be compared. */
static void check_currencies(const struct check *k)
{
    const char *first = NULL;

    for (unsigned i = 0; i < k->c->profile_count; i++) {
        const struct config_profile *p = &k->c->profiles[i];
        const char *list = k->c->auto_.profiles;
        char name[CONFIG_TEXT_MAX + 1];
        bool is_listed = str_is_empty(list);

        while (!is_listed && config_list_next(&list, name, sizeof(name)))
            is_listed = strcmp(name, p->name) == 0;
        if (!is_listed || str_is_empty(p->price.currency))
            continue;
        if (first != NULL && strcmp(first, p->price.currency) != 0) {
            check_complain(k, NULL, "auto.strategy",
                           "cheapest needs profiles with prices in one currency");
            return;
        }
        first = p->price.currency;
    }
}

void check_auto(const struct check *k)
{
    char text[CONFIG_WHY_MAX];
    char bad[64];

    if (config_find_profile(k->c, CONFIG_AUTO) != NULL)
        check_complain(k, NULL, "profiles." CONFIG_AUTO,
                       "cannot be the name of a profile: acquires use it to have one chosen");
    if (!check_each_word(k->c->auto_.profiles, is_profile, k->c, bad, sizeof(bad))) {
        (void) snprintf(text, sizeof(text), "has '%s', which is not the name of a profile", bad);
        check_complain(k, NULL, "auto.profiles", text);
    }
    if (k->c->auto_.strategy == CONFIG_AUTO_CHEAPEST)
        check_currencies(k);
}
