/* egress_link.h - the link between a box's network namespace and the one outside of it. */
#ifndef HELPER_EGRESS_LINK_H
#define HELPER_EGRESS_LINK_H

#include "base/err.h"

/* Makes it, with addresses, and the way out of the box by it. Descriptors of the two namespaces. */
MUST_CHECK int egress_link_make(int outside, int inside, struct err *err);

#endif
