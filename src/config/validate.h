/* validate.h - what the validate_*.c share: how a problem is reported, and formats of texts. */
#ifndef CONFIG_VALIDATE_H
#define CONFIG_VALIDATE_H

#include "config/schema.h"

struct check {
    const struct config *c;
    const struct config_node *root; /* may be NULL: nothing was in the file */
    struct config_problems *problems;
};

/* validate.c. Points at the key in the file, or at the nearest existing section above it. `p` is
 * NULL for a key outside profiles; `text` is the rest of a sentence that begins with the key. */
void check_complain(const struct check *k, const struct config_profile *p, const char *path,
                    const char *text);
void check_complain_more(const struct check *k, const struct config_profile *p, const char *path,
                         uint64_t value, const char *other, uint64_t limit);
/* Calls `check` for each word of a comma separated text; stops when it returns false, with that
 * word in ret_bad. */
bool check_each_word(const char *list, bool (*check)(const struct config *c, const char *word),
                     const struct config *c, char *ret_bad, size_t cap);

/* One for each section, in the file of its name. */
void check_auto(const struct check *k);
void check_budgets(const struct check *k);
void check_access(const struct check *k);
void check_provisioner(const struct check *k);
void check_profile(const struct check *k, const struct config_profile *p);
void check_oci(const struct check *k, const struct config_profile *p);
void check_oci_ids(const struct check *k);
void check_price(const struct check *k, const struct config_profile *p);
void check_docker(const struct check *k, const struct config_profile *p);
void check_remote(const struct check *k, const struct config_profile *p);

/* forms.c */
bool form_is_address(const char *s); /* "127.0.0.1:8001", "[::1]:8001" */
bool form_is_printable(const char *s);
bool form_is_root(const struct config *c, const char *path); /* of a tree: plain, not "/" */

#endif
