/* fit.h - whether a runtime can be started in a box's root without being kept waiting by what is in it. */
#ifndef HELPER_FIT_H
#define HELPER_FIT_H

#include "base/err.h"

/* SP_PROGRAM_NOT_EXECUTABLE: a file that runtimes read by themselves is something that they would hang on. Nothing of the root is
 * opened for reading. */
MUST_CHECK int fit_check(int root, struct err *err);

#endif
