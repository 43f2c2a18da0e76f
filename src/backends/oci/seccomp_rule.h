/* seccomp_rule.h - one rule of a filter, as runtimes read it in config.json. */
#ifndef OCI_SECCOMP_RULE_H
#define OCI_SECCOMP_RULE_H

#include <stdint.h>

#include "base/json.h"

/* What a rule does is an errno that the call fails with, 0 (it is allowed), or: */
#define OCI_RULE_ASK (-1)    /* whoever listens decides */
#define OCI_RULE_IGNORE (-2) /* success, and nothing is done */

/* One condition on an argument: (argument & mask) == value. A mask without the upper 32 bits, at which
 * the kernel does not look: a value with others there is treated the same. Mask 0: argument >= value; only
 * to give an error, because it counts the upper half. */
struct oci_condition {
    unsigned index;
    uint64_t mask;
    uint64_t value;
};

/* Names are separated by spaces. */
void oci_rule_names(struct json_out *o, const char *names);
/* Whatever the arguments are. */
void oci_rule_by_name(struct json_out *o, const char *names, int errnum);
/* All conditions must hold, each on another argument: libseccomp takes no two on the same one. Several rules for one
 * call add up. */
void oci_rule_by_arg(struct json_out *o, const char *names, int errnum,
                     const struct oci_condition *conditions, size_t count);

#endif
